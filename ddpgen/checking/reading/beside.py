"""What belongs to files that somebody names one by one: modules that they import, and importers."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ddpgen.checking.reading.programs import Module
from ddpgen.errors import NO_PROGRAM

# A folder with one of these is where imports begin, and no folder above is looked at.
_TOP = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def needed(named: Iterable[Module], known: Iterable[Module]) -> list[Module]:
    """The modules that run together with some files, of those that are not known yet.

    They are what the files import, directly or not, and what imports the files from beside them.
    """
    there = {module.path.resolve() for module in known}
    todo = list(named)
    texts = {folder: _texts(folder) for folder in {module.path.parent for module in todo}}
    importers = [path for m in todo for path in _importers(m, texts[m.path.parent])]
    found = [new for path in importers for new in _read(path, there)]
    todo += found
    while todo:
        module = todo.pop()
        new = [other for path in _imported(module) for other in _read(path, there)]
        found += new
        todo += new
    return found


def _read(path: Path, there: set[Path]) -> Iterator[Module]:
    """The module at a path, unless it is known."""
    if path.resolve() not in there:
        there.add(path.resolve())
        try:
            yield Module(path, path.read_text(encoding="utf-8-sig"))
        except (OSError, *NO_PROGRAM):
            return


def _texts(folder: Path) -> dict[Path, str]:
    """The texts of the Python files in a folder."""
    found = {}
    for path in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError, ValueError):
            found[path] = path.read_text(encoding="utf-8-sig")
    return found


def _importers(module: Module, texts: dict[Path, str]) -> list[Path]:
    """The files among some that seem to import a module."""
    stem = re.escape(module.path.stem)
    pattern = re.compile(rf"\bimport\b.*\b{stem}\b|\b{stem} import\b")
    return [path for path, text in texts.items() if pattern.search(text)]


def _imported(module: Module) -> Iterator[Path]:
    """The files that a module imports."""
    folders = list(_folders(module.path.resolve().parent))
    for name in module.imported:
        relative = len(name) - len(name.lstrip("."))
        parts = [part for part in name.split(".") if part]
        starts = folders[relative - 1 : relative] if relative else folders
        for start in starts:
            if hit := next(filter(Path.is_file, _candidates(start, parts)), None):
                yield hit
                break


def _folders(folder: Path) -> Iterator[Path]:
    """A folder and those around it, up to the one where imports begin."""
    for each in (folder, *folder.parents):
        yield each
        if any((each / name).exists() for name in _TOP):
            return
        if not (each / "__init__.py").exists() and each != folder:
            return


def _candidates(start: Path, parts: list[str]) -> Iterator[Path]:
    for end in (len(parts), len(parts) - 1):
        if end > 0:
            path = start.joinpath(*parts[:end])
            yield from (path.with_suffix(".py"), path / "__init__.py")
