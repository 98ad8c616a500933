"""docs/pitfalls.md promises tests in the generated project: they exist, and name the pitfall."""

import re
from collections.abc import Iterator
from pathlib import Path

from ddpgen.fetching import template_source

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"
ROW = re.compile(r"\| ([A-Z]\d+) \| .+ \| ([CTSR -]+) \| .+ \|")
IDS = re.compile(r"\b([A-Z])(\d+)(?:-\1(\d+))?\b")


def ids(text: str) -> Iterator[str]:
    """The ids in a docstring; `K2-K5` is four of them."""
    for theme, first, last in IDS.findall(text):
        yield from (f"{theme}{number}" for number in range(int(first), int(last or first) + 1))


def named_by_tests() -> set[str]:
    """The ids that the project's tests name in their docstrings."""
    root = template_source.template_root()
    files = [*root.glob("project/tests/**/test_*"), *root.glob("parts/*/test_*.py")]
    found = set()
    for file in files:
        texts = re.findall(r'"""(.*?)"""', file.read_text(encoding="utf-8"), re.DOTALL)
        found |= {name for text in texts for name in ids(text)}
    return found


def test_page_promises_what_tests_name() -> None:
    """A row with T is named by a test; a test names rows that exist and say so."""
    rows = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
    assert len(rows) > 50
    promised = {name for name, guard in rows.items() if "T" in guard}
    named = named_by_tests()
    assert promised - named == set(), "promised on the page, named by no test"
    assert named - set(rows) == set(), "named by a test, not on the page"
