"""What is left out of a run that would take too long."""

import time
import zlib

# Thousands of a kind: all but each tenth are left out first.
MANY = ("product/test_programs.py::test_program[",)
TENTH = 10
REST = 6  # minutes behind those of `--minutes`, after which nothing else begins
BEGIN = time.monotonic()


def is_of_many(test: str) -> bool:
    """Whether the test of that id is one of thousands of a kind."""
    return test.partition("tests/")[2].startswith(MANY)


def reason(test: str, minutes: float) -> str:
    """Why the test of that id does not begin any more, or nothing (as when `minutes` is 0)."""
    left_out = is_of_many(test) and zlib.crc32(test.encode()) % TENTH
    limit = minutes if left_out else minutes + REST
    over = minutes and time.monotonic() - BEGIN > 60 * limit
    return f"{limit:g} minutes are over, after which no such test begins" if over else ""
