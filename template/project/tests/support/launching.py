"""Runs launch files on pretended nodes: stand-ins for the commands that they call note it."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import common

# The resources that a scheduler grants, whatever the files ask for.
HOSTS = ["node9", "node7", "node8"]  # as granted: the first is not the first by name
PER_NODE = 2
CORES = 12  # of a node

# By bash alone: a test calls hundreds of commands, and each process takes its time to start.
NOTE = """\
#!{bash}
mapfile -d "" -t given </proc/$$/environ
mapfile -t itself </proc/$$/status
printf '%s\\0' "$#" "$@" "${{given[@]}}" "${{itself[*]}}" >"{folder}/$EPOCHREALTIME.$$.{name}"
"""
# A rank that trains, and told to stop says that it is to go on; USR1 it knows some seconds late,
# when it has imported all. In Python, since a shell cannot handle a signal that was ignored when it
# started.
RANK = """
exec {python} -ISc '
import os, signal, subprocess, sys, time

def stop(number, frame):
    for name in "{signals}".split():
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    subprocess.run(["told"])
    with open(os.path.join(os.environ["{folder}"], "END"), "w") as file:
        file.write("SystemExit: {code} in rank")
    sys.exit({code})

for name in "{signals}".split():
    if name != "SIGUSR1":
        signal.signal(signal.Signals[name], stop)
subprocess.run(["ready"] if {late} else ["true"])
time.sleep({late})
if "SIGUSR1" in "{signals}":
    signal.signal(signal.SIGUSR1, stop)
subprocess.run(["true"] if {late} else ["ready"])
while True:
    signal.pause()
'
"""
# The files that the program leaves in a crash.
FAIL = 'echo mine >"${JOB_FOLDER:?}/RUN"; echo "OSError: no route in reduce" >"$JOB_FOLDER/END"'
# A run that comes to its end; rank 0 alone says its name.
GOOD = '[[ ! ${JOB_FOLDER-} || ${NODE_RANK:-0} != 0 ]] || echo mine >"$JOB_FOLDER/RUN"\n'
# As torchrun: ends its workers on TERM, dies of signals that it does not know.
TORCHRUN_AT_WORK = """
trap 'touch torchrun-was-told; kill -TERM $(jobs -p)' TERM
rank & rank &
while [[ $(jobs -p -r) ]]; do wait; done
exit 1
"""
# Starts a rank that goes on, and has nothing to do where the data are only prepared.
PYTHON_AT_WORK = '[[ " $* " == *" --prepare-only "* ]] || exec rank\n'
# A wait for half of a job's seconds, or for more, is over soon.
NEARLY_OVER = '(($1 < {} / 2)) || set -- 2\nexec /bin/sleep "$@"\n'
# This job may run on a part of the machine's cores.
NPROC = f"[[ $1 == --all ]] && echo {2 * CORES} || echo {CORES}\n"
# A folder stays while another node writes into it, or a file server keeps what is open.
KEPT = '/bin/rm "$@" && [[ $1 != -rf ]]\n'
# Runs the command on this machine in place of the container.
CONTAINER = """
while [[ $1 != bash && $1 != python ]]; do shift; done
exec "$@"
"""


STARTED: list[subprocess.Popen[bytes]] = []  # by all stages of a test


def end_all() -> None:
    """End what still runs of all that stages have started."""
    while STARTED:
        process = STARTED.pop()
        with contextlib.suppress(ProcessLookupError):  # all of it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass(frozen=True)
class Call:
    """The arguments of a command's call."""

    arguments: list[str]
    variables: dict[str, str]
    ignored: int  # a bit for each signal

    def ignores(self, number: int) -> bool:
        """Whether a signal does nothing to the command, until the command handles the signal."""
        return bool(self.ignored >> (number - 1) & 1)

    def option(self, name: str) -> str:
        """The value of `name=value` among the arguments; where it is given twice, the last."""
        given = [a.partition("=")[2] for a in self.arguments if a.partition("=")[0] == name]
        assert given, f"{name}= is not among the arguments: {' '.join(self.arguments)}"
        return given[-1]


class Stage:
    """A folder with the launch files, and with stand-ins that come before all other commands."""

    def __init__(self, folder: Path, stand_ins: dict[str, str], variables: dict[str, str]) -> None:
        self.folder, self.log = folder, folder / "log"
        self.where = folder  # from where files are started
        self.notes, self.bin = folder / "notes", folder / "bin"
        self.started: list[subprocess.Popen[bytes]] = []
        self.notes.mkdir(parents=True)
        self.bin.mkdir()
        shutil.copytree(common.PROJECT / "launch", folder / "launch")
        (folder / "train.py").touch()
        with (folder / "launch" / "nccl.env").open("a") as file:
            file.write("NCCL_GIVEN=the file's\nNCCL_TEXT=$(exit 3) as it stands")  # no end of line
        self.edit("launch/env.sh", r"(builtin source|\[\[ -r) .*", "true")  # what an image brings
        path = f"{self.bin}:{os.environ['PATH']}"
        self.variables = {"PATH": path, "HOME": str(folder), **variables}
        everywhere = dict.fromkeys(("torchrun", "python", "ready", "told", "saved"), "")
        everywhere |= {"apptainer": CONTAINER, "docker": CONTAINER, "nproc": NPROC, "rm": KEPT}
        for name, script in {**everywhere, **stand_ins}.items():
            self.stand_in(name, script)

    def stand_in(self, name: str, script: str) -> None:
        """Have a command note its call, and do what a script says."""
        path = self.bin / name
        note = NOTE.format(bash=shutil.which("bash"), folder=self.notes, name=name)
        path.write_text(note + script)
        path.chmod(0o755)

    def edit(self, script: str, pattern: str, text: str) -> None:
        """Put another text in place of a pattern, which may be missing, in a launch file."""
        path = self.folder / script
        path.write_text(re.sub(pattern, text, path.read_text(), flags=re.MULTILINE))

    def start(self, script: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Run a launch file as a user or a scheduler would."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                ["bash", script, *arguments],
                cwd=self.where,
                env={**self.variables, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        STARTED.append(process)
        return process

    def has_ended(self) -> bool:
        """Whether nothing of what was started last goes on, after ten seconds at most."""
        for _ in range(100):
            try:
                os.killpg(self.started[-1].pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.1)
        return False

    def run(self, script: str, *arguments: str, **variables: str) -> int:
        """Run a launch file to its end; returns its exit code."""
        process = self.start(script, *arguments, **variables)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{script} does not end, and has said:\n{self.said()}") from None

    def calls(self, name: str) -> list[Call]:
        """The calls of a command, the first one first."""
        found = []
        for note in self._notes(name):
            count, *words = note.read_text().removesuffix("\0").split("\0")
            pairs = [word.partition("=") for word in words[int(count) : -1]]
            variables = {variable: value for variable, _, value in pairs}
            ignored = re.findall("SigIgn:\\s*(\\w+)", words[-1])[0]
            found.append(Call(words[: int(count)], variables, int(ignored, 16)))
        return found

    def _notes(self, name: str) -> list[Path]:
        notes = sorted(self.notes.glob(f"*.{name}"))
        texts = [note.read_bytes() for note in notes]  # some are being written
        whole = [b"SigIgn" in text and text.endswith(b"\0") for text in texts]
        return list(itertools.compress(notes, whole))

    def last_before(self, one: str, other: str) -> bool:
        """Whether all calls of one command came before all of another."""
        return self._notes(one)[-1].name < self._notes(other)[0].name

    def wait_for(self, name: str, number: int) -> None:
        """Until a command was called that often."""
        end = time.monotonic() + 60
        while len(self.calls(name)) < number:
            assert time.monotonic() < end, f"{name} was not called:\n{self.said()}"
            time.sleep(0.02)

    def said(self) -> str:
        """The whole output."""
        return self.log.read_text()


def seconds(limit: str) -> int:
    """A time limit, HH:MM:SS."""
    assert limit.count(":") == 2, f"{limit}: write the hours, too"
    hours, minutes, rest = (int(part) for part in limit.split(":"))
    return 3600 * hours + 60 * minutes + rest


def insist(job: subprocess.Popen[bytes], number: int) -> int:
    """Send a signal each second until a script has ended, as an impatient user does."""
    for _ in range(60):
        job.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return job.wait(1)
    raise AssertionError("the script does not end")


def runs(process: str) -> bool:
    """Whether the process of this number goes on: those that have ended have no command."""
    try:
        return Path("/proc", process, "cmdline").read_bytes() != b""
    except OSError:
        return False


def cancel(job: subprocess.Popen[bytes]) -> None:
    """End a script and all that it started, as a scheduler does for its users."""
    os.killpg(job.pid, signal.SIGTERM)


@contextlib.contextmanager
def service() -> Iterator[int]:
    """A service of this machine: its port, which is that of the job of the same number."""
    port = 20_000 + os.getpid() % 10_000
    with socket.create_server(("", port)):
        yield port


def directives(script: str, mark: str) -> dict[str, str]:
    """A launch file's requests to its scheduler: option -> value."""
    text = re.split("^[^#\\n]", (common.PROJECT / script).read_text(), maxsplit=1, flags=re.M)[0]
    words = re.findall(f"^#{mark} (.*)", text, re.MULTILINE)  # none is read after a command
    return {word.partition("=")[0]: word.partition("=")[2] for word in words}


def found(script: str, pattern: str) -> list[str]:
    """All that a pattern finds in a launch file."""
    return re.findall(pattern, (common.PROJECT / script).read_text(), re.MULTILINE)
