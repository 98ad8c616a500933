"""What is left out where a machine is slow says so, and only that is left out."""

import re
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest
import slowness
from slowness import MANY, REST, TENTH, reason

TESTS = Path(__file__).resolve().parents[1]
FILE = "product/test_programs.py"
PROGRAMS = [f"tests/{MANY[0]}{number}]" for number in range(1000)]


@pytest.fixture(autouse=True)
def _begins_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is asked here as in a run that has just begun."""
    monkeypatch.setattr(slowness, "BEGIN", time.monotonic())


def test_programs_that_are_left_out_say_why_and_are_counted(tmp_path: Path) -> None:
    """In a run whose minutes are over from the start, of tests with the names of programs."""
    file = tmp_path / "tests" / FILE
    file.parent.mkdir(parents=True)
    lines = ["import pytest", "@pytest.mark.parametrize('number', range(100))"]
    file.write_text("\n".join([*lines, "def test_program(number):", "    pass\n"]))
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-q", "-rs", "--minutes=1e-9"]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", str(file)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (counted,) = re.findall(r"SKIPPED \[(\d+)\] .*1e-09 minutes are over", done.stdout)
    assert int(counted) == sum(bool(reason(f"tests/{MANY[0]}{n}]", 1e-9)) for n in range(100))
    assert f"{100 - int(counted)} passed" in done.stdout


def test_late_ones_come_before_programs_and_are_left_out_with_them(tmp_path: Path) -> None:
    """Wherever they stand in their file."""
    file = tmp_path / "tests" / "test_some.py"
    file.parent.mkdir()
    names = (f"test_{number}" for number in count())
    name = next(n for n in names if not slowness.has_turn(f"tests/test_some.py::{n}"))
    late = ["import pytest", "@pytest.mark.late", f"def {name}():", "    pass"]
    file.write_text("\n".join([*late, "def test_usual():", "    pass\n"]))
    programs = tmp_path / "tests" / FILE
    programs.parent.mkdir()
    marked = "import pytest\n@pytest.mark.parametrize('number', [0])\n"
    programs.write_text(f"{marked}def test_program(number):\n    pass\n")
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-v", "-rs", f"--rootdir={tmp_path}"]
    for minutes, outcome in (("0", "PASSED"), ("1e-9", "SKIPPED")):
        command = [sys.executable, "-m", "pytest", *options, f"--minutes={minutes}"]
        command += [str(programs), str(file)]
        done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.findall(r"::(test_\w+)\S* (PASSED|SKIPPED)", done.stdout)
        assert found[:2] == [("test_usual", "PASSED"), (name, outcome)], done.stdout
        assert [other for other, _ in found[2:]] == ["test_program"]


def test_each_tenth_of_thousands_runs_all_the_same() -> None:
    left_out = sum(bool(reason(program, 1e-9)) for program in PROGRAMS)
    assert 0.8 < left_out / len(PROGRAMS) * TENTH / (TENTH - 1) < 1.2


def test_ten_commits_run_most_of_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has another tenth; what is late and in the tenth is as usual tests are."""
    marked = Mock(get_closest_marker=lambda _: pytest.mark.late.mark)
    ran = Counter[str]()
    for number in range(TENTH):
        monkeypatch.setattr(slowness, "commit", lambda number=number: f"{number:040}")
        tenth = [name for name in PROGRAMS if slowness.has_turn(name)]
        assert 0.08 < len(tenth) / len(PROGRAMS) < 0.12
        ran.update(tenth)
        for marked.nodeid in PROGRAMS[:50]:
            assert slowness.is_late(marked) != (marked.nodeid in tenth)
    assert len(ran) > 0.6 * len(PROGRAMS)


def test_nothing_begins_after_the_rest() -> None:
    assert all(reason(test, -REST) for test in [*PROGRAMS, "tests/docs/test_pages.py::test_page"])


def test_nothing_is_left_out_in_time_or_without_a_limit() -> None:
    assert not any(reason(program, minutes) for program in PROGRAMS for minutes in (0, 1e9))


def test_second_try_begins_at_any_time(tmp_path: Path) -> None:
    """Of a test that fails once the minutes are over, or the failure would count as a skip.

    The end of the run shows the traceback of the first try.
    """
    (tmp_path / "test_late.py").write_text(
        "import slowness\ndef test_late():\n    slowness.BEGIN -= 1e9\n    assert False\n"
    )
    options = ["-p", "conftest", "-p", "no:cacheprovider", "--reruns=1", "--minutes=1", "--summary"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert "1 failed, 1 rerun" in done.stdout, done.stdout
    _, _, first = done.stdout.partition("first try of ")
    assert "assert False" in first, done.stdout
