"""More sets of launch files in a project: for another cluster, or for another size of a job.

A set is a folder launch_NAME beside launch/, with a file of answers of its own. Nothing else in the
project depends on it, and updates carry it along.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from ddpgen.asking import answers, questions
from ddpgen.asking.questions import Answers, Questionnaire
from ddpgen.errors import DdpgenError, nearest, show
from ddpgen.launching import sites
from ddpgen.rendering.versions import Part, Versions
from ddpgen.updating.carry import carried
from ddpgen.updating.project import Project
from ddpgen.updating.update import put, what_trains, workshop

# What starts a job, in the project's folder.
_START = {
    "local": "{}/local.sh",
    "ssh": "{}/ssh.sh",
    "slurm": "sbatch {}/slurm.sbatch",
    "kubernetes": "kubectl apply -f {0}/kubernetes/volumes.yaml -f {0}/kubernetes/trainjob.yaml",
    "pbs": "qsub {}/pbs.sh",
    "lsf": "bsub < {}/lsf.sh",
    "skypilot": "sky jobs launch {}/skypilot.yaml",
}


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

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
    with workshop() as folder:
        versions = Versions(folder)
        project = Project(path, versions)
        part = _part(project, request)
        code = put(
            folder, versions, project, {**project.parts, request.folder: part}, dry_run=dry_run
        )
    if code == 0 and not dry_run:
        print(f"Start it: {start_command(part)}")
    return code


def start_command(part: Part) -> str:
    """What starts a job with a set of launch files."""
    return _START[show(part.answers["clusters"])].format(part.answers["launch_folder"])


def show_file(path: Path, request: Request) -> int:
    """Print the file that starts such a job, write nothing; return the exit code."""
    with workshop() as folder:
        project = Project(path, Versions(folder))
        part = _part(project, request)
        part.version.render(part.answers, folder / "set")
        name = start_command(part).split()[-1]
        print((folder / "set" / name).read_text(encoding="utf-8"), end="")
    if request.folder not in project.parts:
        reads = f"it reads other files of {request.folder}/, which is not there"
        print(f"ddpgen: {reads}: without --stdout this command adds them", file=sys.stderr)
    return 0


def listing(path: Path) -> int:
    """Print the clusters that there are files for, and the sets of a project; return the code."""
    for choice in questions.load().questions["clusters"].choices:
        print(f"{choice.value:<12}{choice.words}")
    with workshop() as folder:
        project = Project(path, Versions(folder))
    print(f"\nIn {show(project.root)}:")
    for name, part in project.parts.items():
        clusters, nodes, gpus = (part.answers[k] for k in ("clusters", "nodes", "gpus_per_node"))
        print(f"  {name}/  {show(clusters)}: nodes={nodes} gpus_per_node={gpus}")
    return 0


def _part(project: Project, request: Request) -> Part:
    version = project.version
    questionnaire = version.questionnaire
    if "launch_folder" not in questionnaire.questions:
        raise DdpgenError(
            "its template is too old for more launch files",
            option=show(project.root),
            remedy="first: ddpgen update",
        )
    site = sites.load(request.site, questionnaire) if request.site else None
    changes = answers.from_flags(questionnaire, request.data)
    if clash := changes.keys() & {"clusters", "launch_folder"}:
        raise DdpgenError("follows from CLUSTER and --name", option=clash.pop())
    earlier = project.parts.get(request.folder)
    changes |= {"launch_folder": request.folder}
    if request.cluster:
        changes |= {"clusters": [_cluster(questionnaire, request.cluster)]}
    recorded = earlier.answers if earlier else _start(questionnaire, project.answers)
    if site:
        said_before = {name: recorded[name] for name in site.needs if name in recorded}
        changes = site.fill(questionnaire, said_before | changes)
    return Part(version, carried(questionnaire, questionnaire, recorded, changes))


def _cluster(questionnaire: Questionnaire, name: str) -> str:
    known = questionnaire.questions["clusters"].values
    if name not in known:
        remedy = nearest(name, known)
        raise DdpgenError(
            "is not a choice", option="CLUSTER", value=name, allowed=known, remedy=remedy
        )
    return name


def _start(questionnaire: Questionnaire, given: Answers) -> Answers:
    """The answers that a new set begins with: the project's, where they are not about a cluster."""
    return {**what_trains(questionnaire, given), "gpus_per_node": given["gpus_per_node"]}
