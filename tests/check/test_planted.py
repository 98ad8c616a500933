"""Programs as people write them, each a module of check/programs, and mistakes put into them.

A module has the program's files, changes that are right, and mistakes: what is replaced in turn,
and last the row of the catalogue that is to be reported.
"""

from importlib import import_module
from pathlib import Path

import pytest

from check import programs
from check.planted import changed, reported

FOLDER = Path(programs.__path__[0])
PROGRAMS = {
    path.stem: import_module(f"check.programs.{path.stem}")
    for path in sorted(FOLDER.glob("[a-z]*.py"))
}
RIGHT = [(name, title) for name, program in PROGRAMS.items() for title in ("", *program.RIGHT)]
MISTAKES = [(name, title) for name, program in PROGRAMS.items() for title in program.MISTAKES]


@pytest.mark.parametrize(("name", "title"), RIGHT)
def test_program_is_right(name: str, title: str, tmp_path: Path) -> None:
    """As it is, too."""
    program = PROGRAMS[name]
    assert reported(tmp_path, changed(program.FILES, *program.RIGHT.get(title, ()))) == []


@pytest.mark.parametrize(("name", "title"), MISTAKES)
def test_mistake_is_reported(name: str, title: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    *changes, row = program.MISTAKES[title]
    assert {*reported(tmp_path, changed(program.FILES, *changes))} == {row}
