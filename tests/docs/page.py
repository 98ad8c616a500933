"""Reads a page of the documentation as a reader who tries it: commands, expected output, edits.

- A `console` block has commands behind `$ `; the lines below a command are output that must come,
  in that order. `...` stands for any text in a line, and alone for any lines.
- A block with `title="FILE"` is the whole content of a file; a `diff` block with a title changes
  some lines of the file. `@@` begins the next place in the file.
- `<!-- fails -->` above a block: its last command ends with an error, as the page says.
- `<!-- not run: REASON -->` above a block: the test passes the block over.

All other blocks, such as `text`, show something and are not run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>fails|not run: [^\n]+) -->\n+)?"
    r"^```(?P<kind>\w+)?(?: title=\"(?P<title>[^\"\n]+)\")?[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class PageError(Exception):
    """The page says something that is not so."""


@dataclass(frozen=True)
class Command:
    """A command, and the lines that it must print."""

    line: int
    text: str
    expected: tuple[str, ...]
    fails: bool


@dataclass(frozen=True)
class Edit:
    """A file of the page, or a change of a file."""

    line: int
    path: str
    text: str
    is_diff: bool


Step = Command | Edit


def pages() -> list[Path]:
    """The pages that are run."""
    return [*sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]


def steps(text: str) -> Iterator[Step]:
    """The steps of a page, in their order."""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("kind") if block["kind"] else block.start()) + 1
        mark = block["mark"] or ""
        if mark.startswith("not run"):
            continue
        if block["title"]:
            yield Edit(line, block["title"], block["text"], block["kind"] == "diff")
        elif block["kind"] == "console":
            yield from _commands(line, block["text"], mark == "fails")


def not_run(text: str) -> list[str]:
    """The reasons for which blocks of a page are passed over."""
    marks = (block["mark"] or "" for block in BLOCK.finditer(text))
    return [mark.removeprefix("not run: ") for mark in marks if mark.startswith("not run")]


def _commands(line: int, block: str, fails: bool) -> Iterator[Command]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    if parts[0]:
        raise PageError(f"line {line}: a console block begins with a command behind '$ '")
    for number, part in enumerate(parts[1:], start=2):
        command, *expected = part.splitlines()
        while command.endswith("\\"):
            command = command[:-1] + expected.pop(0)
        last = number == len(parts)
        yield Command(line, command, tuple(expected), fails and last)


def change(content: str, diff: str) -> str:
    """Apply a diff block to a file's content."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        if not lines:
            continue
        if wrong := [line for line in lines if line[0] not in " +-\n"]:
            raise PageError(f"neither kept, added nor removed: {wrong[0]!r}")
        old = "".join(line[1:] or "\n" for line in lines if line[0] in " -\n")
        new = "".join(line[1:] or "\n" for line in lines if line[0] in " +\n")
        if (found := f"\n{content}".count(f"\n{old}")) != 1:
            raise PageError(f"{found} places of the file have these lines:\n{old}")
        content = f"\n{content}".replace(f"\n{old}", f"\n{new}")[1:]
    return content


def missing(expected: tuple[str, ...], output: str) -> str | None:
    """The first expected line that does not come in the output, behind those before it."""
    lines = [line.rstrip() for line in output.splitlines()]
    place = 0
    for wanted in expected:
        if wanted.strip() in ("", "..."):
            continue
        pattern = re.compile(".*".join(map(re.escape, wanted.rstrip().split("..."))))
        found = [n for n, text in enumerate(lines[place:], place) if pattern.fullmatch(text)]
        if not found:
            return wanted
        place = found[0] + 1
    return None
