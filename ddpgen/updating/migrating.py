"""Moves files that newer versions of the template moved, in trees of git, before the merge.

git follows a renamed file only while its content stays alike, and leaves a user's own files with
imports of modules that are gone. The table in migrations.toml says what was moved. Applied to the
project as it was generated and to the project as its user committed it, the table leaves to the
merge only what the user and the template changed.
"""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from ddpgen.errors import DdpgenError
from ddpgen.renaming.migrations import Migration, module, table
from ddpgen.updating import trees
from ddpgen.updating.trees import Entry

_SHIM = "# Made by `ddpgen update`, and removed by the next one."


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


def migrate(
    tree: str,
    migrations: Sequence[Migration],
    template: Iterable[str],
    alike: Iterable[str],
    repository: Path,
) -> Migrated:
    """Apply migrations to the files of a tree, in this order.

    No library of rewriting is loaded where there are none.

    Args:
        tree: a tree that the repository has, or borrows from another.
        migrations: what to apply.
        template: the files of the template among them, by the paths before all migrations.
        alike: the files that the tree shares with the one it is merged with. They move, and their
            contents stay: of these, the merge takes the new version.
        repository: the git directory, which new contents go to.

    Raises:
        DdpgenError: a file of the user's is where another has to move.
    """
    done = Migrated(trees.read(tree, repository))
    if not migrations:
        return done
    known, same = {*template}, {*alike}
    began = _sources(done, repository)
    for migration in migrations:
        moved = _moved(done.entries, migration)
        for old, new in migration.programs.items():
            if old in {*moved, *done.programs} or (old in migration.merged and old in done.entries):
                done.programs[old] = new
        for path, content in _sources(done, repository).items():
            if path in same:
                continue
            renewed = _rewritten(path, content, migration, moved, path in known, done)
            if renewed != content:
                entry = Entry(done.entries[path].mode, trees.store(renewed, repository))
                done.entries[path] = entry
        done.entries = {moved.get(path, path): entry for path, entry in done.entries.items()}
        known, same = ({migration.moves.get(p, p) for p in paths} for paths in (known, same))
    done.programs = {old: new for old, new in done.programs.items() if old in began}
    own = began.keys() & done.entries.keys() - known
    done.rewrites += _differences(began, {p: done.entries[p] for p in own}, repository)
    return done


def _differences(
    began: Mapping[str, bytes], ended: Mapping[str, Entry], repository: Path
) -> Iterator[Rewrite]:
    """Yield the lines of files that were rewritten."""
    from ddpgen.renaming import rewriting

    contents = trees.contents(ended.values(), repository)
    for path, entry in sorted(ended.items()):
        for number, words in rewriting.changed_lines(began[path], contents[entry.name]):
            yield Rewrite(path, number, words)


def _moved(entries: Mapping[str, Entry], migration: Migration) -> dict[str, str]:
    """Return the moves of files that are there."""
    moved = {old: new for old, new in migration.moves.items() if old in entries}
    for old, new in moved.items():
        if not _is_free(new, entries):
            raise DdpgenError(
                f"is in the way: {old} moves there",
                option=new,
                remedy="rename yours, commit, and try again",
            )
    return moved


def _sources(done: Migrated, repository: Path) -> dict[str, bytes]:
    """Return the contents of all Python files by path."""
    files = {p: e for p, e in done.entries.items() if p.endswith(".py") and e.is_file}
    contents = trees.contents(files.values(), repository)
    return {path: contents[entry.name] for path, entry in files.items()}


def _rewritten(
    path: str,
    content: bytes,
    migration: Migration,
    moved: Mapping[str, str],
    of_template: bool,
    done: Migrated,
) -> bytes:
    """Return a Python file with new names of variables, of what it imports, and of modules."""
    from ddpgen.renaming import rewriting
    from ddpgen.renaming.new_names import Names

    modules = {
        module(old): module(new)
        for old, new in {**moved, **migration.merged}.items()
        if not PurePosixPath(old).name.startswith("test_") and _imports(old, path, done.entries)
    }
    steps = []
    if of_template:
        for entry in migration.names:
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in entry["files"]):
                changed = {key: value for key, value in entry.items() if key != "files"}
                steps.append(partial(rewriting.names, changed=Names(**changed)))
    elif migration.exported:
        steps.append(partial(rewriting.exported, new_names=migration.exported))
    if modules:
        steps.append(partial(rewriting.imports, modules=modules, rebind=of_template))
    try:
        for step in steps:
            content = step(content)
    except rewriting.UnreadableError:
        done.rewrites.append(Rewrite(path, 1, "cannot be read as Python, and stays as it is"))
    return content


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
