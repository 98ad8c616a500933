"""Merges a project with a new rendering: git's three-way merge, away from the user's files.

The ancestor is the project as its version of the template renders it, one side is what the user
committed, the other what the new answers or the new version render. git follows renames and says
where both sides changed the same lines. Only `apply` touches the project.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ddpgen.errors import DdpgenError, show
from ddpgen.fetching.git import blob, git
from ddpgen.renaming.migrations import Migration
from ddpgen.rendering.render import uninterrupted
from ddpgen.updating import trees
from ddpgen.updating.migrating import Migrated, migrate, with_shims, without_shims
from ddpgen.updating.project import Project

_USAGE = 129  # how git ends when it does not know a flag
_DELETED = {"1", "3"}  # the stages of a file that only the user deleted


@dataclass
class Merge:
    """The outcome of a merge.

    Attributes:
        repository: the git directory that holds it.
        ours: the tree of the project before.
        result: the tree of the project after, with marked conflicts.
        stages: the sides of each file that git could not merge, as `git update-index` reads them.
        deleted: files that the user deleted and the template changed; they stay deleted.
        unknown: files that the template adds or changes, but that are there without being known to
            the user's git; they stay as they are.
        migrated: the files of the project as migrations left them, before the merge.
    """

    repository: Path
    ours: str
    result: str
    migrated: Migrated
    stages: dict[str, list[str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yield status (A, M, T or D) and path of every file that will change, removals first."""
        form = ("diff-tree", "-r", "-z", "--no-renames", "--name-status")
        parts = git(*form, self.ours, self.result, repository=self.repository).split("\0")
        found = zip(parts[::2], parts[1::2], strict=False)
        yield from sorted(found, key=lambda change: change[0] != "D")

    def hidden(self) -> list[str]:
        """Return the user's modules that Python no longer finds beside a package of that name."""
        files = trees.read(self.result, self.repository)
        packages = {
            path.removesuffix("/__init__.py") for status, path in self.changes() if status == "A"
        }
        return [f"{package}.py" for package in sorted(packages) if f"{package}.py" in files]

    def beside(self, path: str) -> str:
        """Return where git puts the template's file if the user's is of another type, or ""."""
        return next((name for name in self.stages if name.startswith(f"{path}~")), "")


def merge(
    project: Project,
    base: str,
    theirs: str,
    label: str,
    steps: Sequence[Migration] | None = None,
) -> Merge:
    """Merge what is committed in a project with a new rendering.

    Args:
        project: the project.
        base: the tree that the project began as.
        theirs: the tree that it should become.
        label: the name of that in the marks of conflicts.
        steps: what versions in between moved; None where the version stays.

    Raises:
        DdpgenError: git is too old, or line ends were changed.
    """
    repository = project.versions.repository
    objects = project.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
    (repository / "objects/info/alternates").write_text(f"{objects}\n")
    ours = project.git("rev-parse", "HEAD:./")
    template, own = trees.read(base, repository), trees.read(ours, repository)
    alike = [path for path, entry in template.items() if own.get(path) == entry]
    before, mine = (
        migrate(tree, steps or [], template, alike, repository) for tree in (base, ours)
    )
    if steps is not None:
        mine.entries = without_shims(mine.entries, repository)
    moved_base, moved_ours = (trees.write(done.entries, repository) for done in (before, mine))
    _check_line_ends(repository, moved_base, theirs, moved_ours)
    start = git("commit-tree", moved_base, "-m", "base", repository=repository)
    for name, tree in (("yours", moved_ours), (label, theirs)):
        commit = git("commit-tree", tree, "-p", start, "-m", name, repository=repository)
        git("update-ref", f"refs/heads/{name}", commit, repository=repository)
    output = _merge_tree(label, repository)
    result, *files = output.rstrip("\0").split("\0")
    if mine.programs:
        result = trees.write(
            with_shims(trees.read(result, repository), mine.programs, repository), repository
        )
    outcome = Merge(repository, ours, result, mine)
    for entry in files:
        outcome.stages.setdefault(entry.partition("\t")[2], []).append(entry)
    _leave_alone(project, outcome)
    return outcome


def _merge_tree(label: str, repository: Path) -> str:
    """Let git merge the branches; return the tree and its conflicts as git prints them."""
    settings = ("-c", "merge.directoryRenames=false", "-c", "merge.conflictStyle=merge")
    form = ("merge-tree", "--write-tree", "--no-messages", "-z", "yours", label)
    try:
        return git(*settings, *form, repository=repository, codes=(0, 1))
    except subprocess.CalledProcessError as error:
        if error.returncode != _USAGE:
            raise
        remedy = "with an older one: copier update --defaults"
        raise DdpgenError(
            "2.38 or later is needed for this", option="git", remedy=remedy
        ) from error


def _leave_alone(project: Project, outcome: Merge) -> None:
    """Remove files from the result: the user deleted them, or has others there that git misses."""
    for path, entries in list(outcome.stages.items()):
        deleted = {entry.partition("\t")[0].split()[2] for entry in entries} == _DELETED
        if deleted and path.rpartition("~")[0] not in outcome.stages:
            outcome.deleted.append(path)
            del outcome.stages[path]
    gone = {path for status, path in outcome.changes() if status == "D"}
    for status, path in outcome.changes():
        folders = [str(folder) for folder in Path(path).parents][:-1]
        blocked = [folder for folder in folders if _is_file(project.root / folder)]
        there = os.path.lexists(project.root / path)
        if status == "A" and (there or blocked) and not gone & {path, *folders}:
            outcome.unknown.append(path)
    outcome.deleted = [path for path in outcome.deleted if path not in outcome.unknown]
    unwanted = [*outcome.deleted, *outcome.unknown]
    if unwanted:
        git("read-tree", outcome.result, repository=outcome.repository)
        arguments = ("--work-tree=.", "update-index", "--force-remove", "-z", "--stdin")
        names = "".join(f"{path}\0" for path in unwanted)
        git(*arguments, repository=outcome.repository, cwd=outcome.repository, stdin=names)
        outcome.result = git("write-tree", repository=outcome.repository)


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def apply(project: Project, outcome: Merge) -> None:
    """Write the result of a merge into the project, the files of answers last.

    Everything is written beside first, inside the user's git directory, so that a full disk changes
    nothing, and only renames remain. Before these git is told the conflicts: nobody commits their
    marks by chance where the machine stops in between.
    """
    changes = sorted(outcome.changes(), key=lambda change: change[1].startswith(".copier-answers"))
    area = project.git("rev-parse", "--absolute-git-dir")
    with tempfile.TemporaryDirectory(prefix="ddpgen-", dir=area) as folder:
        written = [path for status, path in changes if status != "D"]
        git("read-tree", outcome.result, repository=outcome.repository)
        checkout = ("--work-tree=.", "checkout-index", "-z", "--stdin")
        names = "".join(f"{path}\0" for path in written)
        git(*checkout, repository=outcome.repository, cwd=Path(folder), stdin=names)
        stages = _index(project, outcome)
        with uninterrupted():
            if stages:
                project.git("update-index", "-z", "--index-info", stdin=stages)
            for status, path in changes:
                if status == "D":
                    _remove(project.root, path)
            for path in written:
                target = project.root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(Path(folder) / path, target)


def _index(project: Project, outcome: Merge) -> str:
    """Put the sides of every conflict into the user's repository; return the lines for its index.

    So `git status` lists them, `git mergetool` works, and git refuses to commit them as they are.
    """
    prefix = project.git("rev-parse", "--show-prefix")
    lines = []
    for path, entries in outcome.stages.items():
        lines.append(f"0 {'0' * 40}\t{prefix}{path}\0")
        for entry in entries:
            mode, name, stage = entry.partition("\t")[0].split()
            if mode != "160000":  # a submodule's commit is nothing of this repository
                content = outcome.repository / "content"
                content.write_bytes(blob(name, outcome.repository))
                project.git("hash-object", "-w", "--no-filters", str(content))
            lines.append(f"{mode} {name} {stage}\t{prefix}{path}\0")
    return "".join(lines)


def _remove(root: Path, path: str) -> None:
    """Remove a file, and the folders that are empty then."""
    (root / path).unlink(missing_ok=True)
    for folder in Path(path).parents[:-1]:
        with suppress(OSError):
            (root / folder).rmdir()


def _check_line_ends(repository: Path, base: str, theirs: str, ours: str) -> None:
    """Refuse to merge files whose line ends someone changed: every line would be a conflict."""
    names = ("diff", "--name-only", "-z", base, theirs)
    changed = git(*names, repository=repository).split("\0")
    search = ("grep", "-l", "-z", "-I", "\r$", ours, "--", *filter(None, changed))
    found = git(*search, repository=repository, codes=(0, 1))
    if found:
        files = [name.partition(":")[2] for name in found.rstrip("\0").split("\0")]
        raise DdpgenError(
            "lines end as on Windows (CRLF), so that every line would be a conflict",
            option=show(files),
            remedy="sed -i 's/\\r$//' FILE, and commit",
        )
