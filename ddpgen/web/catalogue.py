"""The catalogue of pitfalls as the page shows it, and the lines of a project that lead there."""

import json
import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ddpgen import documents

FILE = "pitfalls.json"  # what the page of the catalogue reads, beside the page
TESTS = "tests/"
SHARDING = "engine/sharding.py"  # without this file rows of FSDP are not about a project
_ROW = re.compile(r"\| ([A-Z]\d+) \| (.+) \| ([A-Z ]+) \| (.+) \|")
_TEST = re.compile(r"def (\w+)\(")
_TITLE = re.compile(r"## (.+)")


class Row(NamedTuple):
    """A row of the catalogue.

    Attributes:
        id: such as `G3`.
        mistake: the mistake, in Markdown, as all texts.
        guards: how the row is guarded, a letter each.
        how: what guards it.
        section: the title above the row.
    """

    id: str
    mistake: str
    guards: str
    how: str
    section: str


@cache
def rows() -> dict[str, Row]:
    """Return the rows by id, in their order."""
    found = {}
    title = ""
    for line in _text().splitlines():
        if heading := _TITLE.fullmatch(line):
            title = heading[1]
        elif row := _ROW.fullmatch(line):
            found[row[1]] = Row(row[1], row[2], row[3], row[4], title)
    return found


def why(path: str, text: str, project: Mapping[str, str]) -> dict[int, list[tuple[str, str]]]:
    """Return the rows in which lines of a file have their reason: id and mistake, by number.

    Args:
        path: where the file is in its project.
        text: the file's content.
        project: all files of the project; rows that are about none of them are left out.
    """
    code = {row for other in project for row in _rows(other, project[other])}
    about = {row for row in code if SHARDING in project or row[0] != "F"}
    found = _noticed(text) if path.startswith(TESTS) else _reasons(path, text)
    return {
        number: [(row, rows()[row].mistake) for row in ids if row in about]
        for number, ids in found.items()
        if about.intersection(ids)
    }


@lru_cache(maxsize=2048)
def _rows(path: str, text: str) -> frozenset[str]:
    """Return the rows that a file is about; tests know more of them than their project needs."""
    found = {} if path.startswith(TESTS) else _reasons(path, text)
    return frozenset(row for ids in found.values() for row in ids)


def _reasons(path: str, text: str) -> dict[int, list[str]]:
    """Return the rows in which lines of a file have their reason, by number."""
    whole = _drawn()["lines"].get(path, {})
    parts = _parts(path)
    found = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        ids = [*whole.get(line, ())]
        if parts and not line.startswith("# "):
            ids += (row for part, names in parts if part in line for row in names)
        if ids:
            found[number] = ids
    return found


def _noticed(text: str) -> dict[int, list[str]]:
    """Return the rows whose mistakes tests notice, by the number of each test's first line."""
    tests = _drawn()["tests"]
    names = {n: _TEST.match(line) for n, line in enumerate(text.splitlines(), 1)}
    return {n: tests[name[1]] for n, name in names.items() if name and name[1] in tests}


def page() -> str:
    """Return the whole catalogue as JSON: what it is, and each row with its page of examples."""
    checks = documents.folder() / "check"
    records = [{**row._asdict(), "page": _page(checks / f"{row.id}.md")} for row in rows().values()]
    about = _text().partition("\n## ")[0].split("\n\n")[1:]
    return json.dumps({"about": about, "rows": records})


def _text() -> str:
    return (documents.folder() / "pitfalls.md").read_text(encoding="utf-8")


def _page(path: Path) -> str:
    """Return the text below the title, or ""."""
    return path.read_text(encoding="utf-8").partition("\n\n")[2] if path.is_file() else ""


@cache
def _drawn() -> dict[str, Any]:
    file = Path(__file__).with_name("reasons.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def _parts(path: str) -> list[tuple[str, list[str]]]:
    """Return what stands in lines of a file that have a reason, each with the ids of rows."""
    tables = [parts for name, parts in _drawn()["parts"].items() if fnmatchcase(path, name)]
    return [entry for parts in tables for entry in parts.items()]
