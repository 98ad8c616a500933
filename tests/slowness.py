"""Which tests take turns, and what is left out where a machine is slow.

`make whole` runs every test and writes which take long, into seconds.json. In `make test` these
take turns: each commit has another twentieth. All others always run, the thousand programs that are
trained among them; so do the quickest row of each test, unless all of its rows take long, and the
few in ALWAYS.
"""

import json
import shutil
import subprocess
import time
import zlib
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = HERE / "seconds.json"
LONG = 3.0  # seconds of a test, where four run on two cores, from which on the test takes turns
QUICKEST = 10.0  # seconds of the quickest row of a test, below which this row always runs
TURNS = 20  # commits, of which about one runs a test that takes long
# However long they take: the default project's own tests, a job of SLURM on two nodes, the first
# page that users follow.
ALWAYS = (
    "tests/product/test_own_tests.py::test_project_passes_in_a_new_python[pytest]",
    "tests/clusters/test_slurm.py::test_two_nodes_form_one_world",
    "tests/docs/test_pages.py::test_page[tutorial/first-project.md]",
)
# Thousands of a kind: they come last, so that no worker waits long for the others at the end.
MANY = ("product/test_programs.py::test_program[",)
BEGIN = time.monotonic()


@cache
def commit() -> str:
    """The name of the commit that is tested; nothing outside a repository."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout


def has_turn(test: str) -> bool:
    """Whether the turn of the test of that id is at this commit."""
    return zlib.crc32(f"{commit()} {test}".encode()) % TURNS == 0


def is_of_many(test: str) -> bool:
    """Whether the test of that id is one of thousands of a kind."""
    return test.partition("tests/")[2].startswith(MANY)


@cache
def measured() -> dict[str, float]:
    """Seconds by test, of those that took long when all were run."""
    found: dict[str, float] = json.loads(SECONDS.read_text(encoding="utf-8"))
    return found


def taking_turns(tests: Iterable[str], seconds: Mapping[str, float]) -> set[str]:
    """Those of the tests with these ids that take turns."""
    rows: dict[str, list[str]] = {}
    for test in tests:
        rows.setdefault(test.partition("[")[0], []).append(test)
    found = set()
    for of_one in rows.values():
        quickest = min(of_one, key=lambda test: seconds.get(test, 0))
        always = {quickest} if seconds.get(quickest, 0) < QUICKEST else set()
        found |= {test for test in of_one if seconds.get(test, 0) >= LONG} - always
    return found - {*ALWAYS}


def left_out(test: str, others: Collection[str], minutes: float) -> str:
    """Why the test of that id does not begin, or nothing.

    Args:
        test: its id.
        others: tests that take turns.
        minutes: after which no test begins any more, or 0.
    """
    if test in others and not has_turn(test):
        return "takes long, and another commit has its turn: `make whole` runs all"
    over = minutes and time.monotonic() - BEGIN > 60 * minutes
    return f"{minutes:g} minutes are over, after which no test begins" if over else ""


def write(reporter: Any, path: Path) -> None:
    """Write seconds by test, of those that took long in this run."""
    passed = (r for r in reporter.stats.get("passed", []) if not is_of_many(r.nodeid))
    found = {r.nodeid: round(r.duration) for r in passed if r.duration >= LONG}
    path.write_text(json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n")
