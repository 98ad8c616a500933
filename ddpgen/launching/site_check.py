"""Compares a site with the machine that this runs on."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ddpgen.asking import detect
from ddpgen.asking.known import CLUSTERS, NODES
from ddpgen.asking.question import Value
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import show
from ddpgen.launching.sites import Site

_INTERFACES = Path("/sys/class/net")


def problems(site: Site, questionnaire: Questionnaire) -> list[str]:
    """Return what of a site does not fit this machine, a line each."""
    # Two nodes, so that what a site says about the network between nodes applies.
    job = {CLUSTERS: [site.cluster], NODES: 2, **site.answers}
    refused = [
        f"{state.question.name}={show(state.value)}: {state.problem}"
        for state in questionnaire.evaluate(job)
        if state.problem
    ]
    return refused + _misfits(site, questionnaire.by_fact)


def _misfits(site: Site, names: Mapping[str, str]) -> list[str]:
    """Return the answers that are not as the machine is.

    Args:
        site: the site.
        names: the questions by the facts that answer them.
    """
    given = {fact: site.answers.get(name) for fact, name in names.items()}
    found = [f"{names[fact]}={show(given[fact])}: {why}" for fact, why in _against_network(given)]
    if site.cluster != "slurm":
        return found
    partitions = detect.partitions()
    if partitions is None:
        return [*found, "cluster=slurm: sinfo does not answer here"]
    known = {partition.name: partition for partition in partitions}
    name = str(given["queue"] or next(iter(known), ""))
    if name not in known:
        there = ", ".join(known) or "none"
        why = f"of the partitions with GPUs, SLURM knows {there}"
        return [*found, f"{names['queue']}={show(name)}: {why}"]
    return found + [
        f"{names[fact]}={show(given[fact])}: partition {name} {why}"
        for fact, why in _against_partition(given, known[name])
    ]


def _against_network(given: Mapping[str, Value | None]) -> Iterator[tuple[str, str]]:
    interface = str(given["interfaces"] or "")
    if interface and not (_INTERFACES / interface).exists():
        there = ", ".join(sorted(path.name for path in _INTERFACES.iterdir()))
        yield "interfaces", f"not on this host, which has {there}"


def _against_partition(
    given: Mapping[str, Value | None], has: detect.Partition
) -> Iterator[tuple[str, str]]:
    """Yield the facts that a partition contradicts, and what it has instead."""
    gpus = int(str(given["gpus"] or has.gpus_per_node))
    cpus = gpus * int(str(given["cpus"] or 0))
    if gpus > has.gpus_per_node:
        yield "gpus", f"has {has.gpus_per_node}"
    if given["gpu_model"] and given["gpu_model"] != has.gpu_type:
        yield "gpu_model", f"has {has.gpu_type}"
    if has.cpus and cpus > has.cpus:
        yield "cpus", f"has {has.cpus} CPUs a node"
    if given["features"] and not {*re.split("[&|]", str(given["features"]))} <= has.features:
        yield "features", f"has {has.features or 'none'}"
    if has.time_limit and detect.seconds(str(given["job_time"] or "")) > has.time_limit:
        yield "job_time", f"ends jobs after {detect.clock(has.time_limit)}"
