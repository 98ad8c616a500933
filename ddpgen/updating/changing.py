"""Changes the parts of a project: merges their new rendering into it, and reports the changes."""

import fcntl
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ddpgen.asking.known import MAIN_FOLDER
from ddpgen.asking.question import Answers
from ddpgen.errors import DdpgenError, show
from ddpgen.fetching.git import git
from ddpgen.renaming.migrations import between, table
from ddpgen.rendering.versions import Part
from ddpgen.updating.merge import Merge, apply, merge
from ddpgen.updating.project import Project

CONFLICTS = 1
_MOVED = "~yours"  # how git calls a file of the user's where the template has a folder
_RENAMES = "-M40%"  # files that moved are changed, too, by updates over several versions
_WORDS = {"A": "added", "D": "removed", "M": "changed", "R": "renamed", "T": "changed"}


def change_to(project: Project, wanted: Mapping[str, Part], *, dry_run: bool) -> int:
    """Merge other parts into a project, report the changes, and return the exit code.

    Args:
        project: the project.
        wanted: the parts that it should have, by folder of launch files.
        dry_run: only show what would happen.
    """
    project.check_repository()
    base = project.base()
    theirs = project.versions.tree(wanted.values(), "theirs")
    label = f"ddpgen-{wanted[MAIN_FOLDER].version.tag[1:]}"
    since, to = project.version.tag, wanted[MAIN_FOLDER].version.tag
    steps = between(since, to) if since != to else None
    outcome = merge(project, base, theirs, label, steps)
    project.check_seen(path for _, path in outcome.changes())
    if dry_run:
        print(git("diff", _RENAMES, outcome.ours, outcome.result, repository=outcome.repository))
    for name, part in wanted.items():
        if name in project.parts:
            _print_answers(project.parts[name].answers, part.answers, name)
    report = _report(outcome)
    if outcome.result == outcome.ours:
        print(report or "Nothing to change.")
    elif dry_run:
        print(f"{report}\nNothing was changed: this is a dry run.")
    else:
        where = shlex.quote(str(project.root))
        with _alone(project, outcome.ours):
            print(f"To undo: cd {where} && {_undo(outcome)}", file=sys.stderr, flush=True)
            apply(project, outcome)
        print(report)
        if project.detached():
            print("HEAD is detached: make a branch before you commit (git switch -c NAME).")
    return CONFLICTS if outcome.stages or outcome.unknown else 0


@contextmanager
def _alone(project: Project, ours: str) -> Iterator[None]:
    """Keep other updates away from a project that is still as it was when its merge began.

    Raises:
        DdpgenError: somebody changed it meanwhile, as in an editor or by another update.
    """
    lock = Path(project.git("rev-parse", "--absolute-git-dir")) / "ddpgen.lock"
    with lock.open("w") as file:
        with suppress(OSError):  # of a file server without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        project.check_repository()
        if project.git("rev-parse", "HEAD:./") != ours:
            reason = "was committed to while it was merged: try again"
            raise DdpgenError(reason, option=show(project.root))
        yield


def _undo(outcome: Merge) -> str:
    """Return the command that brings everything back, and touches no file of the user's."""
    undo = "git reset --quiet . && git restore ."
    added = [path for status, path in outcome.changes() if status == "A"]
    return f"{undo} && git clean -fd -- {shlex.join(added)}" if added else undo


def _print_answers(before: Answers, after: Answers, folder: str) -> None:
    place = "" if folder == MAIN_FOLDER else f"{folder}: "
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = (show(values[name]) if name in values else "-" for values in (before, after))
        if old != new and {old, new} != {"-", ""}:  # a question with an empty answer comes or goes
            print(f"{place}{name}: {old} -> {new}")


def _report(outcome: Merge) -> str:
    """Return a line for each file that changes, conflicts last."""
    compare = ("-c", "core.quotePath=false", "diff", _RENAMES, "--name-status")
    text = git(*compare, outcome.ours, outcome.result, repository=outcome.repository)
    lines = []
    for line in text.splitlines():
        status, *paths = line.split("\t")
        if not outcome.stages.keys() & set(paths):
            lines.append(f"{_WORDS[status[0]]:9}{' -> '.join(paths)}")
    lines += [f"{'rewritten':9} {rewrite}" for rewrite in outcome.migrated.rewrites]
    for old, new in outcome.migrated.programs.items():
        lines.append(
            f"{'moved':9}{old} is now: python -m {new} (the old name works until the next update)"
        )
    lines += [
        f"{hidden} is hidden by the new package {hidden[:-3]}/: rename it"
        for hidden in outcome.hidden()
    ]
    lines += [f"{'deleted':9}{path} (by you; the template changed it)" for path in outcome.deleted]
    lines += [f"{'skipped':9}{path} (git does not know yours)" for path in outcome.unknown]
    lines += [f"{'CONFLICT':9}{path}{_advice(outcome, path)}" for path in sorted(outcome.stages)]
    if outcome.stages:
        lines.append(
            "Both you and the template changed these. Edit them, `git add` them, and commit."
        )
    return "\n".join(lines)


def _advice(outcome: Merge, path: str) -> str:
    """Return what to do with a file that the user has, and the template has not at this place."""
    if any(entry.partition("\t")[0].endswith(" 3") for entry in outcome.stages[path]):
        return ""
    if beside := outcome.beside(path):
        return (
            f" (yours is a link or a submodule, and the template's new file lies in {beside}: take "
            f"its changes over, `git add {shlex.quote(path)}`, and `git rm {shlex.quote(beside)}`)"
        )
    if path.endswith(_MOVED):
        place = path.removesuffix(_MOVED)
        return f" (your {place}: the template has a folder of that name; rename yours)"
    homes = [step.merged[path] for step in table() if path in step.merged]
    names = ("ls-tree", "-r", "--name-only", outcome.result, "--", *homes)
    home = homes and git(*names, repository=outcome.repository).strip()
    advice = f"put your lines into {home}, and" if home else "keep your file, or"
    return (
        f" (the template has no such file for your answers: {advice} `git rm {shlex.quote(path)}`)"
    )
