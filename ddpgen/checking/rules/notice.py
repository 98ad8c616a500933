"""L3: the signal before a time limit, and the start that comes after."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.slurm import STARTS, is_batch


def _asked_for(script: Script) -> Iterator[tuple[int, bool, str]]:
    """The signals that SLURM is asked to send: line, whether to the batch shell, name or number."""
    for line, text in script.directives:
        if found := re.search(r"--signal[= ]+(?:([RB]+):)?(?:SIG)?(\w+)", text):
            yield line, "B" in (found[1] or ""), found[2]


def _traps(script: Script, name: str) -> bool:
    """Whether a shell does something when a signal comes; any signal, where it is a number."""
    wanted = r"\w+" if name.isdigit() else name
    ignores = r"(?!''|\"\"|-\s)"
    found = re.search(rf"^\s*trap\s+{ignores}.*\b(SIG)?{wanted}\b", script.code, re.MULTILINE)
    return found is not None


@rule(
    "L3",
    "the signal goes to the batch shell alone (B:), and nothing here takes it",
    "run srun in the background, wait for it, and trap the signal to pass it on",
    reads="script",
)
def signal_lost(script: Script) -> Iterator[Hit]:
    for line, to_shell, name in _asked_for(script):
        if to_shell and not (_traps(script, name) and re.search(r"\bwait\b", script.code)):
            yield line


@rule(
    "L3",
    "without B: the signal goes to the tasks of srun, and never to the shell that waits for it",
    "#SBATCH --signal=B:USR1@300",
    reads="script",
)
def signal_to_the_steps(script: Script) -> Iterator[Hit]:
    for line, to_shell, name in _asked_for(script):
        if not to_shell and not name.isdigit() and _traps(script, name):
            yield line


@rule(
    "L3",
    "without B: the signal goes to the tasks of srun, and there is no srun: nobody gets it",
    "start the program with srun, or pass the signal on: #SBATCH --signal=B:USR1@300 and a trap",
    reads="script",
)
def signal_to_nobody(script: Script) -> Iterator[Hit]:
    remote = re.search(r"\b(srun|mpirun|mpiexec|prun|\w+\.sh)\b", script.code)
    for line, to_shell, _ in _asked_for(script):
        if not to_shell and not remote and [*script.running(STARTS)]:
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


@rule(
    "L3",
    "the shell acts on the signal when this command has ended, which is too late",
    "start srun in the background, and wait for it",
    reads="script",
)
def shell_is_busy(script: Script) -> Iterator[Hit]:
    taken = [name for _, to_shell, name in _asked_for(script) if to_shell]
    beside = r"(?m)[^&|>\d]&(?![&>\d])|\$!|\bcoproc\b|^\s*(\.|source) .*sh\b"
    if (
        any(_traps(script, name) for name in taken)
        and "wait" in script.code
        and not re.search(beside, script.code)
    ):
        yield from script.running(r"\b(srun|mpirun|mpiexec)\b", STARTS)


def _handlers(script: Script) -> Iterator[list[tuple[int, str]]]:
    """The commands of functions that a signal calls which SLURM is asked to send."""
    asked = "|".join(name for _, _, name in _asked_for(script))
    trap = rf"^\s*trap\s+[\"']?(\w+)[\"']?\s.*(?:{asked})\b"
    names = re.findall(trap, script.code, re.MULTILINE) if asked else []
    for name in names:
        begin = rf"\s*(function\s+)?{name}\s*(\(\))?\s*\{{"
        first = next(
            (n for n, (_, text) in enumerate(script.commands) if re.match(begin, text)), None
        )
        if first is not None:
            rest = script.commands[first:]
            last = next((n for n, (_, text) in enumerate(rest) if re.search(r"\}\s*$", text)), 0)
            yield rest[: last + 1]


@rule(
    "L3",
    "the job is requeued while its ranks still save: SLURM kills them, and the last steps are lost",
    "wait for the program before the requeue",
    reads="script",
)
def requeued_before_saved(script: Script) -> Iterator[Hit]:
    for commands in _handlers(script):
        texts = [text for _, text in commands]
        for number, (line, text) in enumerate(commands):
            waits = re.search(r"\b(wait|sleep|while|until)\b", "\n".join(texts[: number + 1]))
            if re.search(r"\bscontrol\s+requeue\b", text) and not waits:
                yield line


@rule(
    "L3",
    "signal 9 ends the ranks at once, and nothing is saved",
    "pass the signal on that the program takes, and wait for it",
    reads="script",
)
def killed_unsaved(script: Script) -> Iterator[Hit]:
    for commands in _handlers(script):
        for number, (line, text) in enumerate(commands):
            before = "\n".join(earlier for _, earlier in commands[:number])
            if re.search(r"\b(p?kill|scancel)\b.*\s-(-signal[= ]+|s\s*)?(SIG)?(9|KILL)\b", text):
                if not re.search(r"\b(kill|scancel|wait|sleep)\b", before):
                    yield line
