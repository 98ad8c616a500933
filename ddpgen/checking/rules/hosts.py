"""D10, L1, L2: hosts by ssh, pods of Kubernetes, and the list of nodes that PBS writes."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import Hit, rule

_LAUNCHER = r"\b(torchrun|torch\.distributed\.(run|launch))\b"
_ALONE = r"--standalone\b|--nnodes[= ]+[\"']?1\b"


def _pods(script: Script) -> int:
    """How many pods a Job has; 1 where that is not said."""
    if script.path.suffix not in {".yaml", ".yml"}:
        return 1
    stated = re.findall(r"^\s*(?:parallelism|completions):\s*(\d+)", script.code, re.MULTILINE)
    return max(map(int, stated), default=1)


def _on_hosts(script: Script) -> list[tuple[int, str]]:
    """The commands in loops that start a launcher by ssh: lines and texts."""
    depth, found = 0, []
    for line, text in script.commands:
        depth += len(re.findall(r"(?:^|[;&|]\s*)\s*(?:for|while|until)\s", text))
        if depth and re.search(r"\b(p?ssh|clush)\s", text) and re.search(_LAUNCHER, text):
            found.append((line, text))
        depth -= len(re.findall(r"(?:^|[;&|]\s*)\s*done\b", text))
    return found


@rule(
    "D10",
    "each of these hosts or pods forms a world of its own: torchrun is told of one node",
    "pass the number of nodes, and a rendezvous that all of them know",
    reads="script",
)
def worlds_of_one_host(script: Script) -> Iterator[Hit]:
    yield from (line for line, text in _on_hosts(script) if re.search(_ALONE, text))
    if _pods(script) > 1:
        yield from script.running(_ALONE)


@rule(
    "L2",
    "one host after another: the first launcher waits for the others, which are never started",
    "start them beside each other, with & behind each, and wait at the end",
    reads="script",
)
def hosts_one_after_another(script: Script) -> Iterator[Hit]:
    for line, text in _on_hosts(script):
        beside = re.search(r"&\s*(done\b.*|pids?\b.*)?$|\bssh\s+(-\w+\s+)*-\w*f|nohup|setsid", text)
        if not beside and not re.search(_ALONE, text):
            yield line


@rule(
    "L1",
    "torchrun waits for another number of nodes than there are pods",
    "state the same number: parallelism, completions and --nnodes",
    reads="script",
)
def nodes_without_pods(script: Script) -> Iterator[Hit]:
    pods = _pods(script)
    for line, text in script.found(r"--nnodes[= ]+[\"']?\d") if pods > 1 else ():
        stated = re.search(r"--nnodes[= ]+[\"']?(\d+)\b(?!:)", text)
        if stated and int(stated[1]) not in (1, pods):
            yield line


@rule(
    "L2",
    "no pod has this name, and the others look for the first one in vain",
    "completionMode: Indexed, a subdomain in the pod's spec, and a headless service of that name",
    reads="script",
)
def pods_without_names(script: Script) -> Iterator[Hit]:
    named = re.search(r"completionMode:\s*[\"']?Indexed", script.code)
    if _pods(script) > 1 and not (named and re.search(r"\bsubdomain:", script.code)):
        yield from script.running(r"--(rdzv[-_]endpoint|master[-_]addr)[= ]+[\"']?[\w.-]+-0\.\w")


@rule(
    "L1",
    "the file has a line for each process of a node, not for each node: others are waited for",
    'count each node once: sort -u "$PBS_NODEFILE" | wc -l',
    reads="script",
)
def lines_taken_for_nodes(script: Script) -> Iterator[Hit]:
    asked = "\n".join(text for _, text in script.directives)
    if re.search(r"\b(mpiprocs|ppn)=(?!1\b)\d", asked) and "nnodes" in script.code:
        for line, text in script.found(r"\bwc -l\b", "PBS_NODEFILE"):
            if not re.search(r"\b(sort|uniq)\b", text):
                yield line
