"""Brings a project to a newer template or to other answers, and shows what its user changed.

All three are comparisons of trees: the project as rendered for its recorded answers and version,
as rendered for the new ones, and as committed.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ddpgen.asking import answers
from ddpgen.asking.questions import Answers, Questionnaire
from ddpgen.errors import FAILURE, DdpgenError, show
from ddpgen.fetching import template_source
from ddpgen.fetching.git import git
from ddpgen.fetching.template_source import order
from ddpgen.rendering.versions import Part, Version, Versions
from ddpgen.updating.carry import carried
from ddpgen.updating.merge import Merge, apply, merge
from ddpgen.updating.migrations import between
from ddpgen.updating.project import WHOLE, Project, no_git

CONFLICTS = 1
_WORDS = {"A": "added", "D": "removed", "M": "changed", "R": "renamed", "T": "changed"}


def update(path: Path, to: str | None, data: Iterable[str], *, dry_run: bool) -> int:
    """Bring a project to a newer version of the template; return the exit code.

    Args:
        path: the project, or a folder in it.
        to: the version, if not the one of this ddpgen.
        data: answers to change, as `key=value`.
        dry_run: only show what would happen.
    """
    with workshop() as folder:
        versions = Versions(folder)
        project = Project(path, versions)
        after = versions[versions.find(to) if to else template_source.TAG]
        since = project.version.tag
        if order(after.tag) < order(since):
            raise DdpgenError(f"the project is already newer: {since[1:]}", option="--to", value=to)
        changes = answers.from_flags(after.questionnaire, data)
        wanted = _carried(project, after, changes)
        if after.tag != since:
            print(
                f"ddpgen {since[1:]} -> {after.tag[1:]}\n\n{versions.changes(since, after.tag)}\n"
            )
        return put(folder, versions, project, wanted, dry_run=dry_run)


def change(path: Path, assignments: Iterable[str], *, dry_run: bool) -> int:
    """Change answers of a project, which stays at its version; return the exit code.

    Args:
        path: the project, or a folder in it.
        assignments: the answers to change, as `key=value`.
        dry_run: only show what would happen.
    """
    with workshop() as folder:
        versions = Versions(folder)
        project = Project(path, versions)
        changes = answers.from_flags(project.version.questionnaire, assignments, "")
        wanted = _carried(project, project.version, changes)
        return put(folder, versions, project, wanted, dry_run=dry_run)


def diff(path: Path) -> int:
    """Show what a project's user changed since it was generated; return the exit code."""
    with workshop() as folder:
        versions = Versions(folder)
        project = Project(path, versions)
        base = versions.tree(project.parts.values(), folder / "base")
        project.check_answers(folder / "base")
        # A new index and no settings: only the project's own .gitignore counts.
        git("read-tree", "--empty", repository=versions.repository)
        git("--work-tree=.", "add", "--all", ".", repository=versions.repository, cwd=project.root)
        mine = git("write-tree", repository=versions.repository)
        compare = ("diff", "-M", "--no-ext-diff", base, mine)
        text = git(*compare, "--diff-filter=a", repository=versions.repository)
        added = git(*compare, "--diff-filter=A", "--name-only", repository=versions.repository)
        print(text or "No file of the template was changed.")
        if added:
            print("\nYour own files:", *added.splitlines(), sep="\n  ")
    return 0


def _carried(project: Project, after: Version, changes: Answers) -> dict[str, Part]:
    """Take all parts to another version, or the project itself to other answers.

    The further sets of launch files follow the project in all that is not about where it runs.
    """
    if changes.get("launch_folder", WHOLE) != WHOLE:
        raise DdpgenError("belongs to `ddpgen launch`", option="launch_folder")
    wanted: dict[str, Part] = {}
    for folder, part in project.parts.items():
        if folder != WHOLE:
            changes = what_trains(after.questionnaire, wanted[WHOLE].answers)
        given = carried(part.version.questionnaire, after.questionnaire, part.answers, changes)
        wanted[folder] = Part(after, given)
    return wanted


def what_trains(questionnaire: Questionnaire, given: Answers) -> Answers:
    """Return the answers that are not about where it runs: those asked before `clusters`."""
    names = [*questionnaire.questions]
    return {name: given[name] for name in names[: names.index("clusters")] if name in given}


def put(
    folder: Path,
    versions: Versions,
    project: Project,
    wanted: Mapping[str, Part],
    *,
    dry_run: bool,
) -> int:
    """Merge other parts into a project, report it, and return the exit code.

    Args:
        folder: a folder for files in between.
        versions: the versions of the template.
        project: the project.
        wanted: what it should consist of, by folder of launch files.
        dry_run: only show what would happen.
    """
    project.check_repository()
    base = versions.tree(project.parts.values(), folder / "base")
    project.check_answers(folder / "base")
    theirs = versions.tree(wanted.values(), folder / "theirs")
    label = f"ddpgen-{wanted[WHOLE].version.tag[1:]}"
    since, to = project.version.tag, wanted[WHOLE].version.tag
    steps = between(since, to) if since != to else None
    outcome = merge(project, versions, base, theirs, label, steps)
    if dry_run:
        print(git("diff", "-M", outcome.ours, outcome.result, repository=versions.repository))
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
        undo = "git reset --quiet . && git restore . && git clean -fd ."
        print(f"To undo: cd {where} && {undo}", file=sys.stderr, flush=True)
        apply(project, outcome)
        print(report)
        if project.detached():
            print("HEAD is detached: make a branch before you commit (git switch -c NAME).")
    return CONFLICTS if outcome.stages or outcome.unknown else 0


def _print_answers(before: Answers, after: Answers, folder: str) -> None:
    of = "" if folder == WHOLE else f"{folder}: "
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = (show(values[name]) if name in values else "-" for values in (before, after))
        if old != new:
            print(f"{of}{name}: {old} -> {new}")


def _report(outcome: Merge) -> str:
    """Say what happens to which file, conflicts last."""
    compare = ("-c", "core.quotePath=false", "diff", "-M", "--name-status")
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
    lines += [f"{'CONFLICT':9}{path}" for path in sorted(outcome.stages)]
    if outcome.stages:
        lines.append(
            "Both you and the template changed these. Edit them, `git add` them, and commit."
        )
    return "\n".join(lines)


@contextmanager
def workshop() -> Iterator[Path]:
    """Give a temporary folder, and say clearly when the machine does not play along."""
    try:
        with tempfile.TemporaryDirectory(prefix="ddpgen-") as folder:
            yield Path(folder)
    except OSError as error:
        if error.filename == "git":
            raise no_git() from error
        if error.errno is None:  # jinja2's TemplateNotFound is an OSError too
            raise
        where = f" ({show(error.filename)})" if error.filename else ""
        raise DdpgenError(f"{error.strerror}{where}", exit_code=FAILURE) from error
    except subprocess.CalledProcessError as error:
        raise DdpgenError(f"failed: {shlex.join(error.cmd[:6])}", exit_code=FAILURE) from error
