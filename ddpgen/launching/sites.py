"""Sites: what all users of a cluster would type again and again, in a TOML file.

ddpgen brings some; the user's own are in their config folder and go before those. A site answers
questions of copier.yml and nothing else, so it is checked by the same rules.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ddpgen.asking import answers, detect
from ddpgen.asking.questions import Answers, Questionnaire
from ddpgen.errors import DdpgenError, nearest, show

BUILT_IN = Path(__file__).with_name("built_in")
_KEYS: dict[str, type] = {
    "title": str,
    "cluster": str,
    "needs": list,
    "answers": dict,
    "sources": dict,
}


@dataclass(frozen=True)
class Site:
    """A site.

    Attributes:
        name: what the file is called, without .toml.
        path: the file.
        title: what it is, in a line.
        cluster: one of the choices of `clusters`.
        needs: questions that only the user can answer.
        answers: the answers of the site.
    """

    name: str
    path: Path
    title: str
    cluster: str
    needs: tuple[str, ...]
    answers: Answers

    def fill(self, questionnaire: Questionnaire, given: Answers) -> Answers:
        """Add the site's answers to the user's, which go before them.

        What does not apply to the user's, such as a network between nodes to one node, is left out.

        Raises:
            DdpgenError: something is missing that the site cannot know.
        """
        missing = [name for name in self.needs if not given.get(name)]
        if missing:
            flags = " ".join(f"--data {name}=..." for name in missing)
            reason = f"jobs there need {' and '.join(missing)}"
            raise DdpgenError(reason, option="--site", value=self.name, remedy=f"add {flags}")
        together: Answers = {"clusters": [self.cluster], **self.answers, **given}
        unfit = {s.question.name for s in questionnaire.evaluate(together) if not s.active}
        return {k: v for k, v in together.items() if k in given or k not in unfit}


def folder() -> Path:
    """The folder of the user's own sites."""
    return platformdirs.user_config_path("ddpgen") / "sites"


def names() -> dict[str, Path]:
    """The files of all sites by name."""
    return {
        path.stem: path for place in (BUILT_IN, folder()) for path in sorted(place.glob("*.toml"))
    }


def load(name: str, questionnaire: Questionnaire) -> Site:
    """Read a site.

    Args:
        name: its name.
        questionnaire: the questions that it may answer.

    Raises:
        DdpgenError: there is none of this name, or its file is wrong.
    """
    known = names()
    if name not in known:
        remedy = nearest(name, [*known]) or f"`ddpgen site new {show(name)}` makes one"
        raise DdpgenError(
            "is no site", option="--site", value=name, allowed=[*known], remedy=remedy
        )
    path = known[name]
    entries = answers.read(path)
    for key, value in entries.items():
        if not isinstance(value, _KEYS.get(key, ())):
            known_keys = ", ".join(_KEYS)
            where = f"{show(path)}: {show(key)}"
            raise DdpgenError(f"is not what a site has ({known_keys})", option=where)
    cluster = str(entries.get("cluster", ""))
    clusters = questionnaire.questions["clusters"].values
    if cluster not in clusters:
        where = f"{show(path)}: cluster"
        raise DdpgenError("is not a choice", option=where, value=cluster, allowed=clusters)
    given = _table(entries, "answers")
    modules = given.get("modules")
    if isinstance(modules, list):
        given["modules"] = " ".join(map(str, modules))
    needs = entries.get("needs")
    return Site(
        name,
        path,
        str(entries.get("title", name)),
        cluster,
        tuple(map(str, needs)) if isinstance(needs, list) else (),
        answers.from_entries(questionnaire, given, path),
    )


def _table(entries: Mapping[str, object], key: str) -> dict[str, object]:
    table = entries.get(key)
    return dict(table) if isinstance(table, dict) else {}


def create(name: str) -> Path:
    """Write a site of the user's own, with what this machine tells about itself.

    Raises:
        DdpgenError: the name is no name of a file, or taken.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise DdpgenError("use letters, digits, - and _ only", option="NAME", value=name)
    path = folder() / f"{name}.toml"
    found = _detected()
    lines = [
        "# `ddpgen site check` compares this with the machine it runs on; `ddpgen options` lists",
        "# what else can be answered here.",
        f"title = {json.dumps(name)}",
        f"cluster = {json.dumps(found.pop('cluster', 'slurm'))}",
        "# What everybody has to say for themselves, such as their account.",
        "needs = []",
        "",
        "[answers]",
        *(f"{key} = {json.dumps(value)}" for key, value in found.items()),
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError as error:
        raise DdpgenError("is there already", option=show(path)) from error
    except OSError as error:
        raise DdpgenError(str(error.strerror), option=show(path)) from error
    return path


def _detected() -> dict[str, object]:
    partitions = detect.partitions()
    fabric = detect.fabric()
    found: dict[str, object] = {"cluster": "slurm"} if partitions is not None else {}
    if partitions:
        chosen = partitions[0]
        found |= {"partition": chosen.name, "gpus_per_node": chosen.gpus_per_node}
        if chosen.gpu_type:
            found["gpu_type"] = chosen.gpu_type
        if chosen.cpus:
            found["cpus_per_gpu"] = max(1, chosen.cpus // chosen.gpus_per_node)
        if chosen.time_limit:
            found["time_limit"] = clock(chosen.time_limit)
    if fabric:
        found["network"] = fabric
    return found


def clock(seconds: int) -> str:
    """Write a time as HH:MM:SS."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def problems(site: Site, questionnaire: Questionnaire) -> list[str]:
    """What of a site does not fit the machine this runs on, a line each."""
    found = [
        f"{state.question.name}={show(state.value)}: {state.problem}"
        for state in questionnaire.evaluate(
            {"clusters": [site.cluster], "nodes": 2, **site.answers}
        )
        if state.problem
    ]
    interface = str(site.answers.get("interface", ""))
    if interface and not (Path("/sys/class/net") / interface).exists():
        there = ", ".join(sorted(path.name for path in Path("/sys/class/net").iterdir()))
        found.append(f"interface={interface}: not on this host, which has {there}")
    return [*found, *_against_slurm(site)] if site.cluster == "slurm" else found


def _against_slurm(site: Site) -> list[str]:
    partitions = detect.partitions()
    if partitions is None:
        return ["cluster=slurm: sinfo does not answer here"]
    known = {partition.name: partition for partition in partitions}
    given = site.answers
    name = str(given.get("partition") or next(iter(known), ""))
    if name not in known:
        there = ", ".join(known) or "none"
        return [f"partition={show(name)}: of the partitions with GPUs, SLURM knows {there}"]
    partition = known[name]
    gpus = int(str(given.get("gpus_per_node", partition.gpus_per_node)))
    cpus = gpus * int(str(given.get("cpus_per_gpu", 0)))
    seconds = detect.seconds(str(given.get("time_limit", "")))
    features = set(re.split("[&|]", str(given.get("constraint", ""))))
    facts = [
        ("gpus_per_node", gpus > partition.gpus_per_node, f"has {partition.gpus_per_node}"),
        ("gpu_type", given.get("gpu_type") != partition.gpu_type, f"has {partition.gpu_type}"),
        ("cpus_per_gpu", cpus > (partition.cpus or cpus), f"has {partition.cpus} CPUs a node"),
        ("constraint", not features <= partition.features, f"has {partition.features or 'none'}"),
        (
            "time_limit",
            seconds > (partition.time_limit or seconds),
            f"ends jobs after {clock(partition.time_limit)}",
        ),
    ]
    return [
        f"{key}={show(given[key])}: partition {name} {fact}"
        for key, wrong, fact in facts
        if wrong and given.get(key)
    ]
