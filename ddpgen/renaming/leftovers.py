"""Old names that files of a project may still use, after an update that did not rewrite them."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from ddpgen.errors import NO_PROGRAM
from ddpgen.origin import recorded_version
from ddpgen.renaming.migrations import Migration, between, module

# Functions that take the name of a module, or of something in it, as their first argument.
BY_NAME = frozenset({"import_module", "run_module", "setattr", "patch", "importorskip"})
_FIRST = "v0.0.0"


@dataclass(frozen=True)
class Renamed:
    """New names, by the old ones that a file may use.

    Attributes:
        modules: new names of modules, such as `{"loading": "engine.loading"}`.
        exported: new names of what modules have, such as `{"data.valid": "counts"}`.
    """

    modules: Mapping[str, str]
    exported: Mapping[str, str]

    @cached_property
    def in_text(self) -> re.Pattern[str]:
        """What stands in every text that uses an old name, and in others too."""
        words = {part for name in (*self.modules, *self.exported) for part in _ends(name)}
        return re.compile(rf"\b({'|'.join(map(re.escape, sorted(words)))})\b" if words else r"(?!)")

    def without(self, names: Iterable[str]) -> "Renamed":
        """Return all but some of the names."""
        left_out = {*names}
        return Renamed(
            {old: new for old, new in self.modules.items() if old not in left_out},
            {old: new for old, new in self.exported.items() if old not in left_out},
        )


def _ends(name: str) -> set[str]:
    return {name.partition(".")[0], name.rpartition(".")[2]}


class Leftovers:
    """The old names in a project, by the version that the project says it has.

    Only what is certain counts: the new file is there, and the old one is not.
    """

    def __init__(self, root: Path, migrations: list[Migration]) -> None:
        self.root = root
        self.migrations = migrations
        self.since: dict[str, str] = {}  # versions by old names

    @cached_property
    def paths(self) -> dict[str, str]:
        """The places of today by old paths, of files that were moved or merged."""
        found: dict[str, str] = {}
        for migration in self.migrations:
            changed = {**migration.moves, **migration.merged}
            found = {old: changed.get(new, new) for old, new in found.items()}
            found |= changed
            for old in changed:
                self.since.setdefault(module(old), migration.version)
        return {old: new for old, new in found.items() if self._is_there(new, old)}

    def _is_there(self, new: str, old: str) -> bool:
        old_package = (self.root / old).with_suffix("")
        gone = not (self.root / old).exists() and not (old_package / "__init__.py").exists()
        of_tests = PurePosixPath(old).name.startswith("test_")
        return gone and not of_tests and (self.root / new).is_file()

    @cached_property
    def exported(self) -> dict[str, str]:
        """New names of what modules have, by old names below each name that the module had."""
        found: dict[str, str] = {}
        for migration in self.migrations:
            for old, new in migration.exported.items():
                home, _, name = old.rpartition(".")
                path = f"{home.replace('.', '/')}.py"
                path = self.paths.get(path, path)
                defined = _defined(self.root / path)
                if new.partition(".")[0] in defined and name not in defined:
                    names = {module(p) for p, today in self.paths.items() if today == path}
                    for each in (*names, module(path)):
                        found[f"{each}.{name}"] = new
                        self.since[f"{each}.{name}"] = migration.version
        return found

    def of(self, path: Path) -> Renamed:
        """Return the names that a file may have to follow.

        A module of the old name beside the file comes first, and the tests' modules are for tests.
        """
        own = path.relative_to(self.root)
        modules = {}
        for old, new in self.paths.items():
            for_it = own.parts[0] == "tests" or not old.startswith("tests/")
            if for_it and not self._is_hidden(module(old), path):
                modules[module(old)] = module(new)
        today = {*modules.values(), *modules}
        exported = {
            old: new
            for old, new in self.exported.items()
            if (home := old.rpartition(".")[0]) in today or not self._is_hidden(home, path)
        }
        return Renamed(modules, exported)

    def _is_hidden(self, name: str, path: Path) -> bool:
        """Whether a file that imports a module gets another one, which is beside the file."""
        file = f"{name.replace('.', '/')}.py"
        return (path.parent / file).exists() and path.parent != self.root


def find(root: Path) -> Leftovers | None:
    """Return what may be left behind in a folder, or None if ddpgen did not make it."""
    tag = recorded_version(root)
    return Leftovers(root, between(_FIRST, tag)) if tag else None


def _defined(path: Path) -> set[str]:
    """Return the names at the top level of a Python file."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, *NO_PROGRAM):
        return set()
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found
