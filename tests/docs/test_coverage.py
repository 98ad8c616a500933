"""The table of what the design asked for names places and tests that exist."""

import re

from docs.page import DOCS

ROOT = DOCS.parent


def test_places_and_tests_exist() -> None:
    """Every row has a test: none is open."""
    page = (DOCS / "coverage.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    for item, place, test in rows:
        for path in re.findall(r"`((?:template|docs|ddpgen|tests)/[^`]+)`", place + test):
            assert (ROOT / path).exists(), f"{item}: {path}"
        tests = re.findall(r"`((?:tests|template/project/tests)/[^`]+)`", test)
        assert tests, item
