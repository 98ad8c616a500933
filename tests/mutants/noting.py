"""A plug-in for the tests of a generated project: notes which of its lines each test runs.

Also in the ranks that a test starts: the copy of the project that is looked at imports this module
in engine/__init__.py, so that it is in whichever process has the project.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLDER = "NOTED_IN"  # the variable that names the folder of notes
TESTS = "tests.json"


class Places(set[tuple[str, int]]):
    """A type of its own: tests look whether the project's plain sets, lists and dicts grow."""


class Files(dict[str, str]):
    """The same of the names of files."""


class Notes:
    """Lines that were run, each written down at once: a rank may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = f"{Path.cwd()}{os.sep}"
        self.files = Files()  # '' for what is not the program's
        self.current = folder / "current"
        self.look()

    def look(self) -> None:
        """In a process that was started or forked: which test does it belong to?"""
        self.process, self.known = os.getpid(), Places()
        self.name = self.current.read_text() if self.current.exists() else "start"

    def begin(self, name: str) -> None:
        """From here on it is this test or fixture that runs lines."""
        self.current.write_text(name)
        self.look()

    def call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Called by Python for each function: whether its lines are of interest."""
        name = frame.f_code.co_filename
        if name not in self.files:
            path = str(Path(name).absolute())
            own = path.startswith(self.project) and "/tests/" not in path
            self.files[name] = path.removeprefix(self.project) if own else ""
        return self.line if self.files[name] else None

    def line(self, frame: FrameType, _event: str, _argument: object) -> Any:
        """Called by Python for each line."""
        place = (self.files[frame.f_code.co_filename], frame.f_lineno)
        if self.process != os.getpid():  # forked for whichever test runs now
            self.look()
        if place not in self.known:
            self.known.add(place)
            with (self.folder / f"{self.process}.txt").open("a") as file:
                file.write(f"{self.name}\t{place[0]}\t{place[1]}\n")
        return self.line


def start() -> None:
    """Note lines from here on, in this process and those that are forked from it."""
    if not _notes:
        _notes.append(Notes(Path(os.environ[FOLDER])))
        sys.settrace(_notes[0].call)
        threading.settrace(_notes[0].call)


_notes: list[Notes] = []
_seconds: dict[str, float] = {}
_fixtures: dict[str, list[str]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    start()
    for item in items:
        _fixtures[item.nodeid] = list(getattr(item, "fixturenames", []))


def pytest_runtest_setup(item: pytest.Item) -> None:
    _notes[0].begin(item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """What a fixture of several tests runs, it runs for all of them."""
    before = _notes[0].name
    if fixturedef.scope != "function":
        _notes[0].begin(f"fixture {fixturedef.argname}")
    yield
    _notes[0].begin(before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _seconds[report.nodeid] = report.duration


def pytest_sessionfinish() -> None:
    text = json.dumps({"seconds": _seconds, "fixtures": _fixtures})
    (_notes[0].folder / TESTS).write_text(text)
