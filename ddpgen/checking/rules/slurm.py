"""D6, L1, L2, L4, L8: batch scripts."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule

STARTS = r"\b(torchrun|torch\.distributed\.(run|launch)|python3?)\b"


# Signs that starts are counted; a comparison of cores, GPUs or nodes is none.
_COUNTS = (
    r"SLURM_RESTART_COUNT|\swc\s|\s-(ge|gt|le|lt)\s|(?<!\$)\(\((?![^)]*(PROC|GPU|CPU|NODE|SECONDS))"
)


def is_batch(script: Script) -> bool:
    return bool(script.directives)


def on_first_node_only(script: Script) -> bool:
    """Whether a job has several nodes, and nothing that starts something on the others."""
    remote = r"\b(srun|mpirun|mpiexec|pdsh|clush|ssh|pbsdsh|blaunch|jsrun)\b"
    return is_batch(script) and script.nodes > 1 and not re.search(remote, script.code)


@rule(
    "D6",
    "each task sees one GPU only, so that set_device(LOCAL_RANK) fails from the second task on",
    "ask for --gpus-per-node, and let every task see all of them",
    reads="script",
)
def hidden_gpus(script: Script) -> Iterator[Hit]:
    lines = [*script.directives, *script.commands]
    several = any(re.search(r"--ntasks(-per-node)?[= ]+(?!1\b)", text) for _, text in lines)
    if script.nodes > 1 and script.option("--ntasks", "-n") == str(script.nodes):
        return  # one on each node
    for line, text in lines:
        if several and re.search(
            r"--gpus-per-task[= ]+(\w+:)?1\b|--gpu-bind[= ]+(single|per_task)", text
        ):
            yield line


@rule(
    "L1",
    "a comment for the scheduler: there is a space behind the #",
    "write #SBATCH (or #PBS, #BSUB) without the space",
    reads="script",
)
def space_in_directive(script: Script) -> Iterator[Hit]:
    for line, text in enumerate(script.lines, 1):
        if re.match(r"#\s+(SBATCH|PBS|BSUB)\s+-", text):
            yield line


@rule(
    "L1",
    "the scheduler stops reading at the first command: this line is a comment",
    "move it above the first command",
    reads="script",
)
def late_directive(script: Script) -> Iterator[Hit]:
    first = next((line for line, text in script.commands if text.strip()), 0)
    for line, _ in script.directives:
        if first and line > first:
            yield line


@rule(
    "L1",
    "the number of nodes is stated twice: once for the scheduler, once here",
    "use the scheduler's variable: --nnodes=$SLURM_JOB_NUM_NODES",
    severity=WARNING,
    reads="script",
)
def nodes_twice(script: Script) -> Iterator[Hit]:
    if script.option("--nodes", "-N") is not None:
        yield from script.running(r"--nnodes[= ]+\d+\b", STARTS)


@rule(
    "L1",
    "the number of nodes comes from the job, but that of processes is fixed",
    "take both from the scheduler's variables",
    severity=WARNING,
    reads="script",
)
def processes_fixed(script: Script) -> Iterator[Hit]:
    if not is_batch(script):  # which may state it above
        yield from script.running(r"--nnodes[= ]+\"?\$(?!\{#)", r"--nproc[-_]per[-_]node[= ]+\"?\d")


@rule(
    "L1",
    "since SLURM 22.05 srun does not take --cpus-per-task over from sbatch: each task has one core",
    "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
    severity=WARNING,
    reads="script",
)
def cores_lost(script: Script) -> Iterator[Hit]:
    cores = script.option("--cpus-per-task", "-c")
    told = re.search(r"SRUN_CPUS_PER_TASK|--cpus-per-task|srun[^\n]*\s-c\s*\S", script.code)
    if cores not in (None, "1") and not told:
        yield from [*script.running(r"\bsrun\b", STARTS)][:1]


@rule(
    "L1",
    "in single quotes the variable is not replaced: every job gets the same literal text",
    "use double quotes",
    reads="script",
)
def literal_variable(script: Script) -> Iterator[Hit]:
    for line, text in script.commands:
        bare = re.sub(r'"(\\.|[^"\\])*"', '""', text)  # within these, single quotes are letters
        of_job = re.search(r"[= ]'\$\{?(SLURM|PBS|LSB)_\w+\}?'", bare)
        given = re.search(r"--[\w-]+[= ]'\$\{?[A-Z_]+\}?(:\$?\{?\w+\}?)?'", bare)
        if of_job or (given and re.search(STARTS, bare)):
            yield line


@rule(
    "L1",
    "there is no such file",
    "name the program that is there",
    reads="script",
)
def missing_program(script: Script) -> Iterator[Hit]:
    if not any(name.endswith(".py") for name in script.names):
        return
    for line, text in script.commands:
        found = re.search(rf"{STARTS}[^|;&]*?\s([\w./-]+\.py)\b", text)
        if found and "/" not in found[3] and found[3] not in script.names:
            yield line, found[3]


@rule(
    "L2",
    "the script runs on the first node only: the others stay idle",
    "start it on each node, with srun, mpiexec, pbsdsh or blaunch",
    reads="script",
)
def no_srun(script: Script) -> Iterator[Hit]:
    if on_first_node_only(script):
        yield from script.running(r"\b(torchrun|torch\.distributed\.(run|launch))\b")


@rule(
    "L2",
    "the batch shell replaces this before srun starts anything: every node gets the number 0",
    "leave the node rank to a c10d rendezvous, or expand it on the nodes: srun bash -c '...'",
    reads="script",
)
def node_rank_too_early(script: Script) -> Iterator[Hit]:
    for line, text in script.commands:
        bare = re.sub(r"'[^']*'", "", text)
        if "srun" in bare and re.search(
            r"--node[-_]rank[= ]+\"?(?<!\\)\$\{?SLURM_(NODEID|PROCID)", bare
        ):
            yield line


@rule(
    "L2",
    "the batch script sets this once, for all tasks: each of them gets the first one's number",
    "set it on the nodes, in a script that srun starts",
    reads="script",
)
def number_too_early(script: Script) -> Iterator[Hit]:
    if not is_batch(script) or "srun" not in script.code:
        return
    for line, name, value in script.settings:
        number = re.fullmatch(r"\$\{?SLURM_(NODEID|PROCID|LOCALID)\}?", value)
        # In quotes it is a task's shell that sets it.
        if number and not re.search(rf"['\"][^'\"]*\b{name}=", script.lines[line - 1]):
            yield line, name


@rule(
    "L4",
    "when one node fails the others wait on, and hold the allocation until its time limit",
    "srun --kill-on-bad-exit=1 --wait=60",
    reads="script",
)
def holds_allocation(script: Script) -> Iterator[Hit]:
    ends = re.search(r"kill-on-bad-exit|KILL_BAD_EXIT|srun[^\n]*\s-K", script.code)
    if script.nodes > 1 and not ends:
        yield from script.running(r"\bsrun\b", STARTS)


@rule(
    "L8",
    "every failure is requeued, also one that comes each time: the job never ends",
    "((${SLURM_RESTART_COUNT:-0} < 3)) before the requeue, and none after a mistake",
    reads="script",
)
def requeued_for_ever(script: Script) -> Iterator[Hit]:
    limited = re.search(_COUNTS, script.code)
    before = ""
    for line, text in script.commands:
        asks = re.search(r"\bscontrol\s+requeue\b", text)
        fails = re.search(rf"{STARTS}.*\|\|.*\bscontrol\b", text)
        if asks and not limited and (fails or re.search(rf"^\s*if\s+!\s.*{STARTS}", before)):
            yield line
        before = text


@rule(
    "L8",
    "this asks for a requeue whenever the job ends, also when the training is complete",
    "requeue in the trap of the signal before the time limit, and after a crash, a few times",
    reads="script",
)
def requeued_at_each_end(script: Script) -> Iterator[Hit]:
    if "SLURM_RESTART_COUNT" not in script.code:
        yield from script.running(r"^\s*trap\s.*\bscontrol\s+requeue\b.*\b(EXIT|0)\s*$")


@rule(
    "L8",
    "what fails here is taken for a success: the job looks complete, and nothing comes back",
    "let the script end with the program's exit code",
    reads="script",
)
def failure_is_hidden(script: Script) -> Iterator[Hit]:
    trains = rf"^(\s*\w+=\S+)*\s*(srun\b.*)?{STARTS}.*\.py\b.*\|\|\s*(true|:)\s*$"
    if is_batch(script):
        yield from script.running(trains)


@rule(
    "L2",
    "fewer tasks than nodes: SLURM takes nodes away until there is one for each task",
    "one task per node: --ntasks-per-node=1",
    reads="script",
)
def fewer_tasks_than_nodes(script: Script) -> Iterator[Hit]:
    tasks = script.option("--ntasks", "-n") or ""
    if tasks.isdigit() and int(tasks) < script.nodes and not script.option("--ntasks-per-node"):
        pattern = r"\s(--ntasks[= ]|-n\s*)\d"
        yield from (line for line, text in script.directives if re.search(pattern, text))
