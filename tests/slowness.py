"""What comes last, and is left out of a run that would take too long."""

import shutil
import subprocess
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Thousands of a kind. They are left out first, as are those marked `late`, but for a tenth of both:
# another tenth at each commit, so that in ten commits most have run.
MANY = ("product/test_programs.py::test_program[",)
TENTH = 10
REST = 6  # minutes behind those of `--minutes`, after which nothing else begins
BEGIN = time.monotonic()


@cache
def commit() -> str:
    """The name of the commit that is tested; nothing outside a repository."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False).stdout


def has_turn(test: str) -> bool:
    """Whether the test of that id is in the tenth of this commit."""
    return zlib.crc32(f"{commit()} {test}".encode()) % TENTH == 0


def is_of_many(test: str) -> bool:
    """Whether the test of that id is one of thousands of a kind."""
    return test.partition("tests/")[2].startswith(MANY)


def turn(item: pytest.Item) -> int:
    """When a test's turn is: usual ones come first, then late ones, then those of thousands."""
    return 2 if is_of_many(item.nodeid) else int(is_late(item))


def is_late(item: pytest.Item) -> bool:
    """Whether the test is marked so, and this is not the commit that has it run with the others.

    What it shows others show in part, and it takes long.
    """
    return item.get_closest_marker("late") is not None and not has_turn(item.nodeid)


def late_if(condition: bool, *values: Any, name: str | None = None) -> Any:
    """Values of a parametrized test, which is late with them if the condition holds."""
    return pytest.param(*values, marks=[pytest.mark.late] * condition, id=name)


def reason(test: str, minutes: float, late: bool = False) -> str:
    """Why the test of that id does not begin any more, or nothing (as when `minutes` is 0)."""
    left_out = late or (is_of_many(test) and not has_turn(test))
    limit = minutes if left_out else minutes + REST
    over = minutes and time.monotonic() - BEGIN > 60 * limit
    return f"{limit:g} minutes are over, after which no such test begins" if over else ""
