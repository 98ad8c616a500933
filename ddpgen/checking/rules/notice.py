"""L3: the signal before a time limit, and the start that comes after."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.slurm import STARTS, is_batch


@rule(
    "L3",
    "the signal goes to the batch shell alone (B:), and nothing here takes it",
    "run srun in the background, wait for it, and trap the signal to pass it on",
    reads="script",
)
def signal_lost(script: Script) -> Iterator[Hit]:
    for line, text in script.directives:
        if asked := re.search(r"--signal[= ]+B:(?:SIG)?(\w+)", text):
            name = r"\w+" if asked[1].isdigit() else asked[1]
            traps = re.search(rf"^\s*trap\s.*\b(SIG)?{name}\b", script.code, re.MULTILINE)
            if not traps or not re.search(r"\bwait\b", script.code):
                yield line


@rule(
    "L3",
    "without B: the signal goes to the tasks of srun, and never to the shell that waits for it",
    "#SBATCH --signal=B:USR1@300",
    reads="script",
)
def signal_to_the_steps(script: Script) -> Iterator[Hit]:
    for line, text in script.directives:
        asked = re.search(r"--signal[= ]+(?:R:)?(?:SIG)?([A-Z]\w+)", text)
        if asked and re.search(rf"^\s*trap\s.*\b(SIG)?{asked[1]}\b", script.code, re.MULTILINE):
            yield line


@rule(
    "L3",
    "without B: the signal goes to the tasks of srun, and there is no srun: nobody gets it",
    "start the program with srun, or pass the signal on: #SBATCH --signal=B:USR1@300 and a trap",
    reads="script",
)
def signal_to_nobody(script: Script) -> Iterator[Hit]:
    remote = re.search(r"\b(srun|mpirun|mpiexec|prun|\w+\.sh)\b", script.code)
    for line, text in script.directives:
        asked = re.search(r"--signal[= ]+(?:R:)?(?:SIG)?(\w+)", text)
        if asked and asked[1] != "B" and not remote and [*script.running(STARTS)]:
            yield line


@rule(
    "L3",
    "nothing asks SLURM to send this signal before the time limit: the job is killed unsaved",
    "#SBATCH --signal=B:USR1@300",
    reads="script",
)
def signal_not_asked_for(script: Script) -> Iterator[Hit]:
    asked = any("--signal" in text for _, text in script.directives)
    if is_batch(script) and not asked and "scontrol requeue" in script.code:
        yield from script.running(r"^\s*trap\s.*\b(SIG)?USR[12]\b")


@rule(
    "L3",
    "SLURM refuses to requeue a job that did not ask for it, on clusters with JobRequeue=0",
    "#SBATCH --requeue",
    severity=WARNING,
    reads="script",
)
def requeue_not_asked_for(script: Script) -> Iterator[Hit]:
    asked = any(re.search(r"\s--requeue\b", text) for _, text in script.directives)
    if is_batch(script) and not asked:
        yield from script.running(r"\bscontrol\s+requeue\b")
