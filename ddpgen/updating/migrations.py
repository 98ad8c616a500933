"""Moves files that newer versions of the template moved, in trees of git, before the merge.

git follows a renamed file only while its content stays alike, and leaves a user's own files with
imports of modules that are gone. The table in migrations.toml says what was moved. Applied to the
project as it was generated and to the project as its user committed it, the table leaves to the
merge only what the user and the template changed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from ddpgen.errors import DdpgenError
from ddpgen.fetching.template_source import order
from ddpgen.updating import rewriting, trees
from ddpgen.updating.trees import Entry

TABLE = Path(__file__).with_name("migrations.toml")
# Folders in which a project's programs and tests look for modules.
_SEARCHED = ("tests/", "")
_SHIM = "# Made by `ddpgen update`, and removed by the next one."


@dataclass(frozen=True)
class Migration:
    """The files that one version moved or renamed for one reason.

    Attributes:
        version: the version, without the `v` of its tag.
        reason: why, in words for users.
        moves: new paths of files by old ones.
        programs: modules to start, by the old paths of programs.
    """

    version: str
    reason: str
    moves: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewrite:
    """A line that was rewritten, or why a file could not be."""

    path: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}"


@dataclass
class Migrated:
    """The files of a tree after migrations.

    Attributes:
        entries: the files.
        rewrites: what changed in their contents.
        programs: programs that moved: modules by old paths.
    """

    entries: dict[str, Entry]
    rewrites: list[Rewrite] = field(default_factory=list)
    programs: dict[str, str] = field(default_factory=dict)


def table() -> list[Migration]:
    """Read the table, oldest version first."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["migration"]
    return sorted((Migration(**entry) for entry in entries), key=lambda m: order(m.version))


def between(since: str, to: str) -> list[Migration]:
    """Return what the versions after the tag `since` moved, up to the tag `to`.

    A working version has all entries: the last of them belong to the release that it becomes.
    """
    return [
        m
        for m in table()
        if order(since) < order(m.version) and ("+" in to or order(m.version) <= order(to))
    ]


def migrate(tree: str, migrations: Sequence[Migration], repository: Path) -> Migrated:
    """Apply migrations to the files of a tree, in this order.

    Args:
        tree: a tree that the repository has, or borrows from another.
        migrations: what to apply.
        repository: the git directory, which new contents go to.

    Raises:
        DdpgenError: a file of the user's is where another has to move.
    """
    done = Migrated(trees.read(tree, repository))
    for migration in migrations:
        _move(done, migration, repository)
    return done


def _move(done: Migrated, migration: Migration, repository: Path) -> None:
    """Apply one migration: imports first, while the modules lie where the imports say."""
    moved = {old: new for old, new in migration.moves.items() if old in done.entries}
    for old, new in moved.items():
        if not _is_free(new, done.entries):
            raise DdpgenError(
                f"is in the way: {old} moves there",
                option=new,
                remedy="rename yours, commit, and try again",
            )
    done.programs |= {old: new for old, new in migration.programs.items() if old in moved}
    sources = {p: e for p, e in done.entries.items() if p.endswith(".py") and e.is_file}
    contents = trees.contents(sources.values(), repository) if moved else {}
    for path, entry in sources.items():
        modules = {
            module(old): module(new)
            for old, new in moved.items()
            if not PurePosixPath(old).name.startswith("test_") and _imports(old, path, done.entries)
        }
        renewed = rewriting.imports(contents[entry.name], modules) if modules else None
        if renewed:
            done.rewrites += [Rewrite(path, line, words) for line, words in renewed.notes]
            done.entries[path] = Entry(entry.mode, trees.store(renewed.content, repository))
    done.entries = {moved.get(path, path): entry for path, entry in done.entries.items()}
    done.rewrites = [replace(r, path=moved.get(r.path, r.path)) for r in done.rewrites]


def _is_free(path: str, entries: Mapping[str, Entry]) -> bool:
    """Return whether nothing is at a path, nor a file where one of its folders has to be."""
    return not any(str(place) in entries for place in (path, *PurePosixPath(path).parents))


def _imports(module_path: str, path: str, entries: Mapping[str, Entry]) -> bool:
    """Return whether a file that imports a module by its name gets the file at `module_path`.

    A module of that name beside the file comes first, and the tests' modules are for tests only.
    """
    name = PurePosixPath(module(module_path).replace(".", "/"))
    beside = PurePosixPath(path).parent / f"{name}.py"
    if str(beside) in entries and str(beside) != module_path:
        return False
    return path.startswith("tests/") or not module_path.startswith("tests/")


def module(path: str) -> str:
    """Return the name under which a project imports a file."""
    folder = next(folder for folder in _SEARCHED if path.startswith(folder))
    return ".".join(PurePosixPath(path.removeprefix(folder)).with_suffix("").parts)


def without_shims(entries: Mapping[str, Entry], repository: Path) -> dict[str, Entry]:
    """Return the files without programs that an earlier update left at old places."""
    old = {path for migration in table() for path in migration.programs} & entries.keys()
    contents = trees.contents([entries[path] for path in old], repository)
    shims = {p for p in old if contents.get(entries[p].name, b"").startswith(_SHIM.encode())}
    return {path: entry for path, entry in entries.items() if path not in shims}


def with_shims(
    entries: Mapping[str, Entry], programs: Mapping[str, str], repository: Path
) -> dict[str, Entry]:
    """Return the files with programs at old places that start those at the new ones."""
    added = dict(entries)
    for old, new in programs.items():
        place = new.replace(".", "/")
        if old not in entries and {f"{place}.py", f"{place}/__main__.py"} & entries.keys():
            added[old] = Entry("100644", trees.store(_shim(old, new).encode(), repository))
    return added


def _shim(old: str, new: str) -> str:
    return f'''{_SHIM}
"""Starts what was {old} until it became `python -m {new}`."""

import runpy
import sys

print("{old} is now `python -m {new}`; the next update removes it", file=sys.stderr)
runpy.run_module("{new}", run_name="__main__", alter_sys=True)
'''
