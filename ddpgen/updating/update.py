"""Brings a project to a newer template or to other answers, and shows what its user changed.

All three commands compare trees: the project as rendered for its recorded answers and version,
as rendered for the new ones, and as committed.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path

from ddpgen.asking import answers
from ddpgen.asking.known import LAUNCH_FOLDER, MAIN_FOLDER
from ddpgen.asking.question import Answers
from ddpgen.errors import DdpgenError, show
from ddpgen.fetching import template_source
from ddpgen.fetching.git import git
from ddpgen.origin import order
from ddpgen.rendering.versions import Part, Version
from ddpgen.updating.carry import about_training, carry_over
from ddpgen.updating.changing import change_to
from ddpgen.updating.project import Project, opened


def update(path: Path, to: str | None, data: Iterable[str], *, dry_run: bool) -> int:
    """Bring a project to a newer version of the template; return the exit code.

    Args:
        path: the project, or a folder in it.
        to: the version, if not the one of this ddpgen.
        data: answers to change, as `key=value`.
        dry_run: only show what would happen.
    """
    with opened(path) as project:
        versions = project.versions
        after = versions[versions.find(to) if to else template_source.TAG]
        since = project.version.tag
        if order(after.tag) < order(since):
            raise DdpgenError(f"the project is already newer: {since[1:]}", option="--to", value=to)
        changes = answers.from_flags(after.questionnaire, data)
        wanted = _parts_at(project, after, changes)
        project.check_repository()
        if after.tag != since:
            print(
                f"ddpgen {since[1:]} -> {after.tag[1:]}\n\n{versions.changes(since, after.tag)}\n"
            )
        return change_to(project, wanted, dry_run=dry_run)


def change(path: Path, assignments: Iterable[str], *, dry_run: bool) -> int:
    """Change answers of a project, which stays at its version; return the exit code.

    Args:
        path: the project, or a folder in it.
        assignments: the answers to change, as `key=value`.
        dry_run: only show what would happen.
    """
    words = [*assignments]
    if folders := [text for text in words if "=" not in text and Path(text).is_dir()]:
        raise DdpgenError(
            "is a folder, and an answer is written key=value",
            option=show(folders[0]),
            remedy=f"name the project's folder so: --project {shlex.quote(folders[0])}",
        )
    with opened(path) as project:
        changes = answers.from_flags(project.version.questionnaire, words, "")
        wanted = _parts_at(project, project.version, changes)
        return change_to(project, wanted, dry_run=dry_run)


def diff(path: Path) -> int:
    """Show what a project's user changed since it was generated; return the exit code."""
    with opened(path) as project:
        base = project.base()
        # A new index and no settings: only the project's own .gitignore counts.
        repository = project.versions.repository
        git("read-tree", "--empty", repository=repository)
        git("--work-tree=.", "add", "--all", ".", repository=repository, cwd=project.root)
        mine = git("write-tree", repository=repository)
        compare = ("diff", "-M", "--no-ext-diff", base, mine)
        text = git(*compare, "--diff-filter=a", repository=repository)
        added = git(*compare, "--diff-filter=A", "--name-only", repository=repository)
        print(text or "No file of the template was changed.")
        if added:
            print("\nYour own files:", *added.splitlines(), sep="\n  ")
    return 0


def _parts_at(project: Project, after: Version, changes: Answers) -> dict[str, Part]:
    """Return the parts of a project at another version, or with other answers.

    The further sets of launch files follow the project in all that is not about where it runs.
    """
    if changes.get(LAUNCH_FOLDER, MAIN_FOLDER) != MAIN_FOLDER:
        raise DdpgenError("belongs to `ddpgen launch`", option=LAUNCH_FOLDER)
    wanted: dict[str, Part] = {}
    for folder, part in project.parts.items():
        if folder != MAIN_FOLDER:
            changes = about_training(after.questionnaire, wanted[MAIN_FOLDER].answers)
        given = carry_over(part.version.questionnaire, after.questionnaire, part.answers, changes)
        wanted[folder] = Part(after, given)
    return wanted
