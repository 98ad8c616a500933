"""More sets of launch files in a project: for another cluster, or for another size of a job.

A set is a folder launch_NAME beside launch/, with a file of answers of its own. Nothing else in the
project depends on it, and updates carry it along.
"""

import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ddpgen.asking import answers, questions
from ddpgen.asking.known import CLUSTERS, LAUNCH_FOLDER, NODES
from ddpgen.asking.question import Answers
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import DdpgenError, nearest, show
from ddpgen.fetching.git import git, tree_of
from ddpgen.launching import sites
from ddpgen.rendering.render import uninterrupted
from ddpgen.rendering.versions import Part
from ddpgen.updating.carry import about_training, carry_over
from ddpgen.updating.changing import change_to
from ddpgen.updating.project import Project, opened


@dataclass(frozen=True)
class Request:
    """A set that the command line asks for.

    Attributes:
        cluster: one of the choices of `clusters`, or "" for that of the site.
        site: the name of a site, or "".
        name: what the folder is called after launch_; "" for the name of the site or cluster.
        data: answers, as `key=value`.
    """

    cluster: str
    site: str
    name: str
    data: list[str]

    @property
    def folder(self) -> str:
        """The folder of the set."""
        return f"launch_{self.name or self.site or self.cluster}"


def add(path: Path, request: Request, *, dry_run: bool) -> int:
    """Add a set of launch files to a project, or give it other answers; return the exit code."""
    code = 0
    with opened(path) as project:
        part = _part(project, request)
        if request.folder in project.parts:
            code = change_to(project, {**project.parts, request.folder: part}, dry_run=dry_run)
        else:
            _write(project, part, dry_run=dry_run)
    if code == 0 and not dry_run:
        print(f"Start it: {start_command(part)}")
    return code


def _write(project: Project, part: Part, *, dry_run: bool) -> None:
    """Write a set that is new to a project: nothing that is there changes, so nothing is merged.

    Raises:
        DdpgenError: something of the user's is in the place of the set, or someone changed the
            project's answers by hand, which the set would follow and the project does not.
    """
    project.base()
    rendered = _rendered(project, part)
    # The folder first: what its file of answers promises is there.
    names = sorted((path.name for path in rendered.iterdir()), reverse=True)
    for name in names:
        if os.path.lexists(project.root / name):
            remedy = "give the new set another --name"
            raise DdpgenError("is there, but not of a set", option=name, remedy=remedy)
    if dry_run:
        repository = project.versions.repository
        nothing = git("mktree", repository=repository)
        print(git("diff", nothing, tree_of(rendered, repository), repository=repository))
    else:
        remove = shlex.join(["rm", "-r", *names])
        print(f"To undo: cd {shlex.quote(str(project.root))} && {remove}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=".ddpgen-", dir=project.root) as beside:
            whole = shutil.copytree(rendered, Path(beside) / "set")
            with uninterrupted():
                for name in names:
                    (whole / name).rename(project.root / name)
    for file in sorted(path for path in rendered.rglob("*") if path.is_file()):
        print(f"{'added':9}{file.relative_to(rendered)}")
    if dry_run:
        print("Nothing was changed: this is a dry run.")


def _rendered(project: Project, part: Part) -> Path:
    """Render a set by itself; return the temporary folder."""
    folder = project.versions.folder("set")
    part.version.render(part.answers, folder)
    return folder


def start_command(part: Part) -> str:
    """Return what starts a job with a set of launch files."""
    starts = part.version.questionnaire.questions[CLUSTERS].meaning.starts
    command = starts[show(part.answers[CLUSTERS])]
    return command.replace("{}", str(part.answers[LAUNCH_FOLDER]))


def show_file(path: Path, request: Request) -> int:
    """Print the file that starts such a job, write nothing; return the exit code."""
    with opened(path) as project:
        part = _part(project, request)
        name = start_command(part).split()[-1]
        print((_rendered(project, part) / name).read_text(encoding="utf-8"), end="")
    if request.folder not in project.parts:
        reads = f"it reads other files of {request.folder}/, which is not there"
        print(f"ddpgen: {reads}: without --stdout this command adds them", file=sys.stderr)
    return 0


def listing(path: Path) -> int:
    """Print the clusters that there are files for, and the sets of a project; return the code."""
    for choice in questions.load().questions[CLUSTERS].choices:
        print(f"{choice.value:<12}{choice.words}")
    with opened(path) as project:
        print(f"\nIn {show(project.root)}:")
    for folder, part in project.parts.items():
        size = (NODES, part.version.questionnaire.by_fact["gpus"])
        words = " ".join(f"{name}={part.answers[name]}" for name in size)
        print(f"  {folder}/  {show(part.answers[CLUSTERS])}: {words}")
    return 0


def _part(project: Project, request: Request) -> Part:
    """Return the set that a request asks for, on top of the one that is there, if any."""
    version = project.version
    questionnaire = version.questionnaire
    if LAUNCH_FOLDER not in questionnaire.questions:
        raise DdpgenError(
            "its template is too old for more launch files",
            option=show(project.root),
            remedy="first: ddpgen update",
        )
    site = sites.load(request.site, questionnaire) if request.site else None
    changes = answers.from_flags(questionnaire, request.data)
    if clash := changes.keys() & {CLUSTERS, LAUNCH_FOLDER}:
        raise DdpgenError("follows from CLUSTER and --name", option=clash.pop())
    earlier = project.parts.get(request.folder)
    changes |= {LAUNCH_FOLDER: request.folder}
    if request.cluster:
        changes |= {CLUSTERS: [_cluster(questionnaire, request.cluster)]}
    recorded = earlier.answers if earlier else _first_answers(questionnaire, project.answers)
    if site:
        said_before = {name: recorded[name] for name in site.needs if name in recorded}
        changes = site.fill(questionnaire, said_before | changes)
    return Part(version, carry_over(questionnaire, questionnaire, recorded, changes))


def _cluster(questionnaire: Questionnaire, name: str) -> str:
    """Return a cluster that there are launch files for.

    Raises:
        DdpgenError: there are none for it.
    """
    known = questionnaire.questions[CLUSTERS].values
    if name not in known:
        remedy = nearest(name, known)
        raise DdpgenError(
            "is not a choice", option="CLUSTER", value=name, allowed=known, remedy=remedy
        )
    return name


def _first_answers(questionnaire: Questionnaire, given: Answers) -> Answers:
    """Return the answers that a new set begins with: of the project, but not of its cluster."""
    gpus = questionnaire.by_fact["gpus"]
    return {**about_training(questionnaire, given), gpus: given[gpus]}
