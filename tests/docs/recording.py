"""Draws docs/pictures/prompts.svg: three moments of `ddpgen new`, as a terminal shows them.

python -m docs.recording    in the folder tests; after a change of the prompts or the questions
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from html import escape, unescape
from itertools import groupby
from pathlib import Path

from generator.terminal import ENTER, Terminal
from pyte.screens import Char

from docs.page import DOCS

PICTURE = DOCS / "pictures" / "prompts.svg"
COLUMNS, WIDTH, HEIGHT, MARGIN = 92, 7.6, 17, 14  # characters; pixels of a character; of the border
QUESTIONS = ("What do you want to train?", "Where will it run?", "These are your answers")
READY = "Esc: one step back"
INK = "#24292f"  # on a light ground, readable in both themes of the site

Line = list[Char]


def moments() -> list[list[Line]]:
    """What the screen shows from the question on, at each of the QUESTIONS."""
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Terminal("new", "my-project", cwd=Path(folder), rows=60, columns=COLUMNS) as terminal,
    ):
        for question in QUESTIONS:
            while question not in terminal.expect(READY):
                first = terminal.prompt.splitlines()[0]
                terminal.type(ENTER)
                while terminal.prompt.startswith(first[:40]) or READY not in terminal.prompt:
                    assert terminal.read(60), terminal.text
            lines = terminal.lines()
            texts = [text(line) for line in lines]
            begin = max(n for n, line in enumerate(texts) if line.startswith("? "))
            found.append(lines[begin:])
    return found


def text(line: Line) -> str:
    """A line's characters."""
    return "".join(char.data for char in line).rstrip()


def draw(screens: Sequence[Sequence[Line]]) -> str:
    """The screens below one another, each in a frame."""
    parts, top = [], 0.0
    width = COLUMNS * WIDTH + 2 * MARGIN
    for screen in screens:
        height = len(screen) * HEIGHT + 2 * MARGIN
        place = f'x="0.5" y="{top + 0.5}" width="{width - 1}" height="{height}"'
        parts.append(f'<rect {place} rx="6"/>')
        for number, line in enumerate(screen, start=1):
            parts += spans(line, top + MARGIN + number * HEIGHT - 4)
        top += height + 12
    style = (
        "rect { fill: #f6f8fa; stroke: #8c959f; } "
        "text { font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; "
        "white-space: pre; }"
    )
    size = f'viewBox="0 0 {width:g} {top - 11:g}" width="{width:g}" height="{top - 11:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    title = "<title>Three moments of ddpgen new: the model, the clusters, the answers</title>"
    return "\n".join([head, title, f"<style>{style}</style>", *parts, "</svg>", ""])


def spans(line: Line, y: float) -> list[str]:
    """A line as texts of one style each."""
    found, column = [], 0
    for (colour, bold), group in groupby(line, key=lambda char: (char.fg, char.bold)):
        run = "".join(char.data for char in group)
        if run.strip():
            kept = run.rstrip()
            place = f'x="{MARGIN + column * WIDTH:g}" y="{y:g}" textLength="{len(kept) * WIDTH:g}"'
            weight = ' font-weight="bold"' if bold else ""
            fill = INK if colour == "default" else f"#{colour}"
            found.append(f'<text {place} fill="{fill}"{weight}>{escape(kept)}</text>')
        column += len(run)
    return found


def words(svg: str) -> list[str]:
    """The words of a picture, in their order."""
    return unescape(" ".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg))).split()


def main() -> int:
    """Record and draw."""
    PICTURE.write_text(draw(moments()), encoding="utf-8")
    print(f"wrote {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
