"""What is left out of a run that would take too long."""

import time

# Thousands of a kind, of which other tests have run some.
MANY = ("product/test_programs.py::test_program[",)
REST = 18  # minutes behind those of `--minutes`, after which nothing else begins
BEGIN = time.monotonic()


def reason(test: str, minutes: float) -> str:
    """Why the test of that id does not begin any more, or nothing (as when `minutes` is 0)."""
    limit = minutes if test.partition("tests/")[2].startswith(MANY) else minutes + REST
    over = minutes and time.monotonic() - BEGIN > 60 * limit
    return f"this machine is slow: {limit:g} minutes are over" if over else ""
