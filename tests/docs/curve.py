"""Draws docs/pictures/curve.svg from a run, such as that of `make demo`.

python -m docs.curve ../build/demo/runs/demo    in the folder tests

The picture holds the points that it shows, so that a test can draw it again.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.page import DOCS

PICTURE = DOCS / "pictures" / "curve.svg"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 52, 52, 34, 44
LOSS, SCORE, INK, GRID = "#c25a00", "#00796b", "#24292f", "#d0d7de"

Points = list[tuple[int, float]]


def curves(run: Path) -> dict[str, Points]:
    """The losses and the accuracy of a run, by step."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = ("train_loss", "val_loss", "val_accuracy")
    return {name: [(r["step"], round(r[name], 4)) for r in rows if name in r] for name in names}


def draw(found: Mapping[str, Points]) -> str:
    """Losses on the left axis, accuracy on the right."""
    last = max(step for points in found.values() for step, _ in points)
    highest = 1.5

    def path(points: Sequence[tuple[int, float]], top: float, style: str) -> str:
        places = " ".join(f"{across(step):.1f},{up(value / top):.1f}" for step, value in points)
        return f'<polyline points="{places}" fill="none" {style}/>'

    def across(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def up(share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(share, 1.0))

    def word(x: float, y: float, text: str, more: str = "") -> str:
        return f'<text x="{x:g}" y="{y:g}" {more}>{text}</text>'

    parts = [f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6"/>']
    for tick in range(6):
        y = up(tick / 5)
        parts.append(f'<line x1="{LEFT}" y1="{y:g}" x2="{WIDTH - RIGHT}" y2="{y:g}"/>')
        parts.append(word(LEFT - 8, y + 4, f"{highest * tick / 5:.1f}", 'text-anchor="end"'))
        parts.append(word(WIDTH - RIGHT + 8, y + 4, f"{tick * 20} %"))
    parts += [
        word(across(step), HEIGHT - BOTTOM + 18, str(step), 'text-anchor="middle"')
        for step in range(0, last + 1, 200)
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(word(middle, HEIGHT - 8, "optimizer step", 'text-anchor="middle"'))
    parts.append(path(found["train_loss"], highest, f'stroke="{LOSS}" stroke-width="1.5"'))
    parts.append(
        path(found["val_loss"], highest, f'stroke="{LOSS}" stroke-width="1.5" stroke-dasharray="5"')
    )
    parts.append(path(found["val_accuracy"], 1.0, f'stroke="{SCORE}" stroke-width="2"'))
    score = found["val_accuracy"][-1][1]
    parts.append(word(LEFT, 20, "loss: training", f'fill="{LOSS}"'))
    parts.append(word(LEFT + 96, 20, "- - validation", f'fill="{LOSS}"'))
    text = f"validation accuracy, in the end {score:.1%}"
    parts.append(word(WIDTH - RIGHT, 20, text, f'fill="{SCORE}" text-anchor="end"'))
    style = (
        f"rect {{ fill: #f6f8fa; stroke: #8c959f; }} line {{ stroke: {GRID}; }} "
        "text { font: 12px sans-serif; }"
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" fill="{INK}">'
    title = "<title>Loss and accuracy of the default project on two processes</title>"
    points = f"<metadata>{json.dumps(dict(found))}</metadata>"
    return "\n".join([head, title, points, f"<style>{style}</style>", *parts, "</svg>", ""])


def points_of(svg: str) -> dict[str, Points]:
    """The points that a picture shows."""
    found = json.loads(svg.partition("<metadata>")[2].partition("</metadata>")[0])
    return {name: [(step, value) for step, value in points] for name, points in found.items()}


def main() -> int:
    """Draw the run's curves."""
    (run,) = sys.argv[1:]
    PICTURE.write_text(draw(curves(Path(run))), encoding="utf-8")
    print(f"wrote {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
