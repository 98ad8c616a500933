"""Tests that take long take turns; who has none says so, and only these are left out."""

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import slowness
from slowness import LONG, MANY, QUICKEST, TURNS, left_out, taking_turns

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = f"tests/{MANY[0]}1]"
ROWS = [f"tests/test_some.py::test_row[{number}]" for number in range(1000)]


@pytest.fixture(autouse=True)
def _begins_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is asked here as in a run that has just begun."""
    monkeypatch.setattr(slowness, "BEGIN", time.monotonic())


def run(folder: Path, *options: str) -> str:
    """The output of pytest in that folder, with these tests' configuration and table of seconds."""
    usual = ["-p", "conftest", "-p", "no:cacheprovider", "-v", "-rs", f"--rootdir={folder}"]
    command = [sys.executable, "-m", "pytest", *usual, *options, str(folder)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_rows_that_take_long_take_turns_but_for_the_quickest() -> None:
    seconds = {ROWS[0]: QUICKEST - 1, ROWS[1]: LONG, ROWS[2]: LONG - 1}
    assert taking_turns(ROWS[:2], seconds) == {ROWS[0]}
    assert taking_turns(ROWS[:3], seconds) == {ROWS[0], ROWS[1]}
    alone = "tests/test_some.py::test_alone"
    assert taking_turns([alone, *ROWS[:3]], seconds | {alone: QUICKEST - 1}) == {*ROWS[:2]}
    assert taking_turns([alone], {alone: QUICKEST}) == {alone}
    assert not taking_turns([alone, *ROWS], {})
    assert not taking_turns(slowness.ALWAYS, dict.fromkeys(slowness.ALWAYS, QUICKEST))


def test_each_commit_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that as many commits as there are turns run most."""
    ran = Counter[str]()
    for number in range(TURNS):
        monkeypatch.setattr(slowness, "commit", lambda number=number: f"{number:040}")
        share = [test for test in ROWS if not left_out(test, ROWS, 0)]
        assert 0.5 < len(share) / len(ROWS) * TURNS < 1.6
        ran.update(share)
    assert len(ran) > 0.6 * len(ROWS)


def test_nothing_else_is_left_out() -> None:
    others = ["tests/test_some.py::test_other", PROGRAM]
    assert not any(left_out(test, ROWS, minutes) for test in others for minutes in (0, 1e9))
    assert all(left_out(test, ROWS, 1e-9) for test in [*others, *ROWS]), "the minutes are over"


def test_those_without_a_turn_say_why_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `make test` alone; programs come last."""
    name = "tests/test_row.py::test_row[0]"
    (tmp_path / "conftest.py").write_text(
        f"import slowness\nslowness.commit = lambda: 'a commit'\nslowness.measured = lambda: {{"
        f"f'{name[:-2]}{{n}}]': 60 for n in range(100)}}\n"
    )
    lines = ["import pytest", "@pytest.mark.parametrize('row', range(100))", "def test_row(row):"]
    for path, text in (
        (tmp_path / "tests" / "test_row.py", "\n".join([*lines, "    pass\n"])),
        (tmp_path / PROGRAM.partition("::")[0], "\n".join([*lines, ""]).replace("row", "program")),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text.endswith("pass\n") else f"{text}    pass\n")
    monkeypatch.setattr(slowness, "commit", lambda: "a commit")
    turn = sum(slowness.has_turn(f"{name[:-2]}{number}]") for number in range(100))
    said = run(tmp_path, "--turns")
    assert re.search(rf"SKIPPED \[{100 - turn}\] .*another commit has its turn", said), said
    assert f"{100 + turn} passed" in said, said
    order = re.findall(r"::(test_\w+)\S* (?:PASSED|SKIPPED)", said)
    assert order == ["test_row"] * 100 + ["test_program"] * 100
    assert "200 passed" in run(tmp_path)


def test_second_try_begins_at_any_time(tmp_path: Path) -> None:
    """Of a test that fails once the minutes are over, or the failure would count as a skip.

    The end of the run shows the traceback of the first try.
    """
    (tmp_path / "test_late.py").write_text(
        "import slowness\ndef test_late():\n    slowness.BEGIN -= 1e9\n    assert False\n"
    )
    said = run(tmp_path, "--reruns=1", "--minutes=1", "--summary")
    assert "1 failed, 1 rerun" in said, said
    _, _, first = said.partition("first try of ")
    assert "assert False" in first, said


def test_table_is_what_a_run_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for programs, which all run; tests that do not take long are not in it."""
    took = {ROWS[1]: LONG, ROWS[0]: LONG + 7.4, PROGRAM: 60.0, ROWS[2]: LONG - 0.1}
    passed = [SimpleNamespace(nodeid=test, duration=seconds) for test, seconds in took.items()]
    monkeypatch.setattr(slowness, "SECONDS", tmp_path / "seconds.json")
    slowness.write(SimpleNamespace(stats={"passed": passed}), slowness.SECONDS)
    slowness.measured.cache_clear()
    try:
        assert slowness.measured() == {ROWS[0]: round(LONG + 7.4), ROWS[1]: round(LONG)}
    finally:
        slowness.measured.cache_clear()


def test_each_test_of_the_table_is_there() -> None:
    """By its file and name: rows change with the options."""
    for test in [*slowness.measured(), *slowness.ALWAYS]:
        file, _, name = test.partition("[")[0].partition("::")
        assert f"def {name}(" in (TESTS.parent / file).read_text(encoding="utf-8"), test
