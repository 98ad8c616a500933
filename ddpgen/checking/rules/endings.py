"""K13, L1, L8: how long a job runs, where its files are, and what is told of its end."""

import re
from collections.abc import Iterator

from ddpgen.checking.reading.scripts import Script
from ddpgen.checking.registry import WARNING, Hit, rule
from ddpgen.checking.rules.slurm import STARTS, is_batch

_OWN_DISK = r"(/tmp|/var/tmp|/dev/shm|/local(scratch)?|\$\{?(TMPDIR|SLURM_TMPDIR)\}?)(/|\b)"
_OF_A_RUN = r"(RUN|OUT|OUTPUT|SAVE|CKPT|CHECKPOINT|RESUME|RESULT)S?(_\w+)?"
_OPTION = r"--(run|out|output|save|ckpt|checkpoint|resume)[\w-]*[= ]+[\"']?"
_REPORTS = r"^\s*(echo|printf|date|sleep|sync|cp|mv|rsync|rm)\b"


@rule(
    "L1",
    "a number alone is minutes: the job ends long before it is meant to",
    "write hours, minutes and seconds: --time=24:00:00",
    severity=WARNING,
    reads="script",
)
def hours_as_minutes(script: Script) -> Iterator[Hit]:
    for line, text in script.directives:
        if re.search(r"^#SBATCH\s+(--time[= ]|-t\s*)(24|48|72|96)\s*(#.*)?$", text):
            yield line


@rule(
    "K13",
    "each node has this folder for itself: what rank 0 writes there the other nodes do not find",
    "name a folder that all nodes see",
    severity=WARNING,
    reads="script",
)
def run_on_own_disk(script: Script) -> Iterator[Hit]:
    if script.nodes > 1:
        for line, name, value in script.settings:
            if re.fullmatch(_OF_A_RUN, name) and re.match(_OWN_DISK, value):
                yield line
        yield from script.running(STARTS, _OPTION + _OWN_DISK)


@rule(
    "L8",
    "the job ends with 0 whatever becomes of the program: a failed run looks like a complete one",
    "let the script end with the program's exit code",
    reads="script",
)
def always_zero(script: Script) -> Iterator[Hit]:
    commands = [(line, text) for line, text in script.commands if text.strip()]
    if is_batch(script) and commands and re.fullmatch(r"\s*exit 0\s*", commands[-1][1]):
        started = [text for _, text in commands if re.search(rf"{STARTS}.*\.py\b", text)]
        asked = re.search(r"set -\w*e|\bexit\s+[\"$1-9]|\|\||&&|\btrap\b", script.code)
        if started and not asked:
            yield commands[-1][0]


@rule(
    "L8",
    "this is the status of the command above, not that of the program",
    "keep the status in the line behind the program: status=$?",
    reads="script",
)
def status_of_another(script: Script) -> Iterator[Hit]:
    commands = [(line, text) for line, text in script.commands if text.strip()]
    for (_, first), (_, between), (line, text) in zip(
        commands, commands[1:], commands[2:], strict=False
    ):
        takes = re.fullmatch(r"\s*\w+=\"?\$\?\"?\s*", text)
        if takes and re.search(rf"{STARTS}.*\.py\b", first) and re.search(_REPORTS, between):
            yield line


@rule(
    "L1",
    "in single quotes the other host gets the name, and has no such variable",
    "use double quotes",
    reads="script",
)
def literal_for_another_host(script: Script) -> Iterator[Hit]:
    own = {*re.findall(r"^\s*(?:export\s+)?(\w+)=", script.code, re.MULTILINE)}
    own |= {*re.findall(r"\bfor\s+(\w+)\s+in\b", script.code)}
    for line, text in script.found(r"\bssh\b", STARTS):
        for quoted in re.findall(r"'([^']*)'", text):
            if not re.search(STARTS, quoted):
                continue
            read = {*re.findall(r"\$\{?(\w+)", quoted)}
            if read & own - {*re.findall(r"\b(\w+)=", quoted)}:
                yield line


@rule(
    "L3",
    "torchrun knows nothing of this signal and ends at once, and its ranks with it",
    "let the signal be TERM, which torchrun passes on, or send the signal to the batch shell: B:",
    reads="script",
)
def launcher_ends(script: Script) -> Iterator[Hit]:
    started = re.search(r"\bsrun\b[^\n]*\btorchrun\b", script.code)
    handled = re.search(r"SIGNALS_TO_HANDLE|signals[-_]to[-_]handle", script.code)
    for line, text in script.directives if started and not handled else ():
        if re.search(r"--signal[= ](?!B:)\w*USR[12]\b", text):
            yield line


@rule(
    "L2",
    "fewer tasks than nodes: some nodes stay idle, or the others wait for them",
    "ask for one task per node: --ntasks-per-node=1",
    reads="script",
)
def fewer_tasks_than_nodes(script: Script) -> Iterator[Hit]:
    tasks = (script.option("--ntasks-per-node") and script.option("--ntasks")) or ""
    for line, text in script.directives if tasks.isdigit() and int(tasks) < script.nodes else ():
        if re.search(r"\s--ntasks[= ]", text):
            yield line
