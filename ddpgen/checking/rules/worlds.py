"""D6, D10, L1-L3, L8: launch files by which nodes or processes do not find together."""

import re
from collections.abc import Iterator
from pathlib import Path

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.slurm import STARTS, is_batch, on_first_node_only

_LAUNCHER = r"\b(torchrun|torch\.distributed\.(run|launch))\b"
_HERE = r"[\"']?(localhost|127\.0\.0\.1|::1|\[::1\])\b"
_HEAD = r"--(master[-_]addr|rdzv[-_]endpoint)[= ]+"
_OWN_NAME = r"(addr|ADDR|endpoint)[= ]+[\"']?\\\$(\(hostname|\{?HOSTNAME)"  # of the node it runs on
_PROCESSES = r"--nproc[-_]per[-_]node[= ]+[\"']?(\d+)\b"
_MORE = r"\$\{?\w*(?i:args|opts?|options|cmd|command|launcher)\b"  # arguments from elsewhere
_SEVERAL = r"--nnodes[= ]+[\"']?([2-9]|1\d|\$\{?(SLURM|PBS|LSB)_|\$\{#)"
_ONE_NODE = r"\bsrun\b.*\s(-N *|--nodes[= ])1\b"
# Kubeflow's operators number the nodes, in a variable that torchrun reads.
_OPERATOR = r"^kind: *(PyTorchJob|TrainJob)\b"
_NUMBER = r"--node[-_]rank[= ]+[\"']?"


@rule(
    "D10",
    "without --nnodes torchrun takes its node for the only one: each trains in a world of its own",
    "pass --nnodes, and a rendezvous that all nodes know",
    reads="script",
)
def nodes_unsaid(script: Script) -> Iterator[Hit]:
    if script.nodes > 1 and not re.search(r"nnodes|PET_NNODES|--standalone", script.code):
        for line, text in script.found(_LAUNCHER + r"[^;|&]*(\.py\b|\s-m\s)"):
            if not re.search(rf"{_MORE}|{_ONE_NODE}", text):
                yield line


@rule(
    "D10",
    "each node looks for the head of the job at itself: the nodes do not find together",
    "name the first node of the job: scontrol show hostnames, or the first line of the host file",
    reads="script",
)
def head_is_everywhere(script: Script) -> Iterator[Hit]:
    if script.nodes == 1 and not re.search(_SEVERAL, script.code):
        return
    yield from script.running(_HEAD + _HERE)
    for line, name, value in script.settings:
        if name in ("MASTER_ADDR", "HEAD_NODE_IP") and re.match(_HERE, value):
            yield line
    for line, text in script.commands:
        on_the_nodes = "".join(re.findall(r"'[^']*'", text)).replace("$", r"\$")
        if re.search(_OWN_NAME, on_the_nodes) or re.search(_OWN_NAME, text):
            yield line


@rule(
    "L2",
    "each node gets the number 0, and waits for the others",
    "number the nodes, or leave the numbers to --rdzv-backend=c10d",
    reads="script",
)
def all_are_node_zero(script: Script) -> Iterator[Hit]:
    if re.search(_OPERATOR, script.text, re.MULTILINE):
        return
    numbered = re.findall(_NUMBER + r"(\S)", script.code)
    for line, text in script.commands:
        several = re.search(_SEVERAL, text) and re.search(_LAUNCHER, text)
        known = "rdzv" in script.code or re.search(_MORE, text) or on_first_node_only(script)
        if several and not known:
            unsaid = not numbered and "NODE_RANK" not in script.code
            on_each = script.nodes > 1 or re.search(r"\bssh\s", text)
            if unsaid or (on_each and {*numbered} == {"0"}):
                yield line


@rule(
    "L2",
    "one node only: the others of the job stay idle",
    "start one task on each node",
    reads="script",
)
def step_of_one_node(script: Script) -> Iterator[Hit]:
    if script.nodes > 1:
        for line, text in script.found(_ONE_NODE, STARTS):
            if not re.search(r"\s(-w|--nodelist|--relative|-r)\b|&$", text):
                yield line


@rule(
    "L2",
    "fewer pods run at once than wait for each other: none of them begins",
    "give parallelism and completions the number of nodes",
    reads="script",
)
def pods_one_after_another(script: Script) -> Iterator[Hit]:
    numbers = {}
    for line, text in script.commands:
        if found := re.fullmatch(r"\s*(parallelism|completions):\s*(\d+)\s*", text):
            numbers[found[1]] = (line, int(found[2]))
    line, at_once = numbers.get("parallelism", (0, 1))
    last, wanted = numbers.get("completions", (0, 1))
    if last and at_once < wanted and re.search(_LAUNCHER, script.code):
        yield line or last


@rule(
    "L2",
    "torchrun starts once for each task, and starts processes for all GPUs each time",
    "one task per node: --ntasks-per-node=1",
    reads="script",
)
def launcher_in_each_task(script: Script) -> Iterator[Hit]:
    tasks = script.option("--ntasks-per-node") or ""
    several = r"--nproc[-_]per[-_]node[= ]+(?!1\b)"
    for line, text in script.found(r"\bsrun\b", _LAUNCHER, several):
        own = re.search(r"\s(-n|--ntasks(-per-node)?)\b", text)
        if tasks.isdigit() and int(tasks) > 1 and not own:
            yield line


@rule(
    "L2",
    "one task on each node, and the program starts no process for the other GPUs: they stay idle",
    "a task for each GPU, --ntasks-per-node, or torchrun in the one task",
    severity=WARNING,
    reads="script",
)
def one_task_for_all_gpus(script: Script) -> Iterator[Hit]:
    tasks = script.option("--ntasks-per-node", "--ntasks", "-n") or "1"
    if not is_batch(script) or script.gpus < 2 or tasks != "1":
        return
    for line, text in script.found(r"\bsrun\b", r"\bpython3?\s", r"\.py\b"):
        own = re.search(rf"\s(-n|--ntasks(-per-node)?)\b|{_LAUNCHER}|{_MORE}", text)
        program = re.search(r"python3?\s+(?:-u\s+)?([\w./-]+\.py)\b", text)
        if not own and program and _starts_no_ranks(script.path.parent / program[1]):
            yield line


def _starts_no_ranks(program: Path) -> bool:
    """Whether a program is there that mentions nothing by which it could start other ranks."""
    try:
        text = program.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return not re.search(r"spawn|Process\(|start_proc|launch|(Trainer|Fabric|Accelerator)\(", text)


@rule(
    "L2",
    "no other node can be reached through this interface",
    "name the network between the nodes, or leave the choice to the library",
    reads="script",
)
def loopback_between_nodes(script: Script) -> Iterator[Hit]:
    for line, name, value in script.settings:
        if script.nodes > 1 and name.endswith("_SOCKET_IFNAME"):
            if re.fullmatch(r"=?(lo|docker\d*)", value):
                yield line, f"{name}={value}"


@rule(
    "D6",
    "fewer GPUs are visible than processes start on this node",
    "leave CUDA_VISIBLE_DEVICES to the scheduler, or start a process for each GPU",
    reads="script",
)
def processes_without_gpu(script: Script) -> Iterator[Hit]:
    commands = dict(script.commands)
    for line, name, value in script.settings:
        beside = commands.get(line, "") if re.search(STARTS, commands.get(line, "")) else ""
        started = re.findall(_PROCESSES, beside or script.code)
        if name == "CUDA_VISIBLE_DEVICES" and re.fullmatch(r"\d+(,\d+)*", value) and started:
            if len(value.split(",")) < min(map(int, started)):
                yield line


@rule(
    "L1",
    "the job asks for another number of GPUs on each node than processes start there",
    "take the number of processes from the job: --nproc-per-node=gpu",
    severity=WARNING,
    reads="script",
)
def gpus_twice(script: Script) -> Iterator[Hit]:
    launched = _LAUNCHER if script.path.suffix not in {".yaml", ".yml"} else ""  # a line each
    divided = "CUDA_VISIBLE_DEVICES" in script.code
    starts = script.gpus and re.search(_LAUNCHER, script.code) and not divided
    for line, text in script.found(launched, _PROCESSES) if starts else ():
        found = re.search(_PROCESSES, text)
        if found and int(found[1]) != script.gpus:
            yield line


@rule(
    "L1",
    "PBS starts jobs in the home folder, where this path leads nowhere",
    'cd "$PBS_O_WORKDIR" first',
    reads="script",
)
def started_at_home(script: Script) -> Iterator[Hit]:
    of_pbs = any(text.startswith("#PBS") for _, text in script.directives)
    moved = re.search(r"\b(cd|pushd)\s|PBS_O_WORKDIR", script.code)
    if of_pbs and not moved and not script.option("-d", "-w"):
        yield from script.running(rf"{STARTS}[^|;&]*\s(?![/$~\"'-])[\w./-]+\.py\b")


@rule(
    "L3",
    "the batch script ends, and the scheduler ends what still runs in the background",
    "wait for it: wait",
    reads="script",
)
def nobody_waits(script: Script) -> Iterator[Hit]:
    beside = [*script.running(STARTS, r"[^&|>]&\s*$")] if is_batch(script) else []
    awaited = [
        *script.running(r"\b(wait|while|until|sleep|fg)\b"),
        *script.running(rf"\bsrun\b|{STARTS}"),
    ]
    last = max((line for line in awaited if line not in beside), default=0)
    yield from (line for line in beside if line > last)


@rule(
    "L8",
    "the status is that of the last command of the pipe: a failed run looks like a complete one",
    "set -o pipefail, or write to a file: srun --output",
    severity=WARNING,
    reads="script",
)
def status_of_the_pipe(script: Script) -> Iterator[Hit]:
    if is_batch(script) and not re.search(r"pipefail|PIPESTATUS", script.code):
        trains = rf"\bsrun\b|\bmpi(run|exec)\b|{_LAUNCHER}|train"
        yield from script.running(
            trains, rf"{STARTS}[^|]*\.py\b[^|]*\|&?\s*(tee|grep|ts|sed|awk)\b"
        )
