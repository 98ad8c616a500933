"""L2: pods of Kubeflow's operators, whose number the launcher is told a second time."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import Hit, rule

_NODES = r"--nnodes[= ]+[\"']?(\d+)\b"


@rule(
    "L2",
    "the launcher waits for another number of nodes than the operator starts",
    "leave --nnodes out: the operator tells torchrun the number",
    reads="script",
)
def other_number_of_pods(script: Script) -> Iterator[Hit]:
    if not re.search(r"^kind: *PyTorchJob\b", script.text, re.MULTILINE):
        return
    pods = sum(map(int, re.findall(r"^\s*replicas: *(\d+)", script.code, re.MULTILINE)))
    for line, text in script.found(_NODES) if pods else ():
        said = re.search(_NODES, text)
        if said and int(said[1]) != pods:
            yield line
