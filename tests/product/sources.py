"""A project's own modules, imported anew for each run of it; equal texts are compiled once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

# By the file's place in its project, and its text.
COMPILED: dict[tuple[str, bytes], CodeType] = {}


class Loader(SourceFileLoader):
    """Reads a file of the current folder, which is a project's."""

    def get_code(self, _fullname: str) -> CodeType:
        """The compiled text; tracebacks show the file's place in the project."""
        place, text = str(Path(self.path).relative_to(Path.cwd())), self.get_data(self.path)
        if (place, text) not in COMPILED:
            COMPILED[place, text] = compile(text, place, "exec", dont_inherit=True)
        return COMPILED[place, text]


def execute(text: str, *namespaces: dict[str, Any]) -> None:
    """What dataclasses run for each method that they make; equal texts are compiled once."""
    exec(_compiled(text), *namespaces)


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<string>", "exec", dont_inherit=True)


@contextmanager
def modules_of(project: Path) -> Iterator[None]:
    """Import from this folder, which must be the current one; afterwards nothing of it is left."""
    inside = f"{project}/"

    def finder(path: str) -> FileFinder:
        if not f"{path}/".startswith(inside):
            raise ImportError(path)  # the next hook's
        return FileFinder(path, (Loader, [".py"]))

    hooks, path, modules = list(sys.path_hooks), list(sys.path), set(sys.modules)
    sys.path_hooks.insert(0, finder)
    sys.path.insert(0, str(project))
    try:
        yield
    finally:
        sys.path_hooks[:], sys.path[:] = hooks, path
        for name in sys.modules.keys() - modules:
            if _lies_in(sys.modules[name], inside):
                del sys.modules[name]
        for folder in [f for f in sys.path_importer_cache if f"{f}/".startswith(inside)]:
            del sys.path_importer_cache[folder]


def _lies_in(module: ModuleType, folder: str) -> bool:
    """Whether a module comes from below a folder: a file, or a package without one."""
    names = vars(module)
    places = [names.get("__file__"), *names.get("__path__", ())]
    return any(str(place).startswith(folder) for place in places)
