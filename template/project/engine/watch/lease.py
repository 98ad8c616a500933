"""Keeps a run's folder for one start: another start is refused while the holder goes on.

A file says who holds the folder, and the holder touches the file every few seconds. Others look
only whether its time changes: the clocks of hosts and of a file server may differ by hours.
"""

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from engine import failures
from engine.settings import ConfigError

BEAT = 5.0  # seconds from touch to touch
LOOKS = 60  # without a touch between them: the holder is gone
PAUSE = 1.0  # seconds from look to look
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """A start, in words that a program compares."""

    job: str  # '' where no launcher says so
    number: int  # of the start in its job
    machine: str  # on which process numbers are the same; '' where nobody knows
    process: int
    born: str  # another process may get the same number later


class Lease:
    """The right of this process to a run's folder."""

    def __init__(self) -> None:
        self.path = Path()
        self.text = ""
        self.over = threading.Event()
        self.thread = threading.Thread()  # touches the file while the folder is held

    def take(self, path: Path, who: str) -> None:
        """Hold the folder of a file; waits for a sign of another holder.

        Raises ConfigError while another start holds the folder. `who` are words about this start.
        """
        self.over.set()
        me = Holder(*job(), machine(), os.getpid(), born(os.getpid()))
        self.path, self.text = path, f"{who}\n{json.dumps(asdict(me))}\n"
        while not self._create():
            clear(path, me)

    def _create(self) -> bool:
        """Make the file, unless there is one: a file server lets one of two starts succeed."""
        try:
            number = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        os.write(number, self.text.encode())
        os.fsync(number)
        self.over = threading.Event()
        self.thread = threading.Thread(target=touch, args=(number, self.over), daemon=True)
        self.thread.start()
        return True

    def give_back(self) -> None:
        """Let the next start begin at once, wherever that start is."""
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()
        with suppress(OSError):
            if self.path.read_text() == self.text:
                self.path.unlink()


def touch(number: int, over: threading.Event) -> None:
    """Touch an open file every few seconds; never that of a start which has taken its place."""
    while not over.wait(BEAT):
        with suppress(OSError):  # a file server that comes back
            os.utime(number)
    os.close(number)


def clear(path: Path, me: Holder) -> None:
    """Remove the file of a holder that is gone; raises ConfigError where the holder goes on.

    Where two starts remove a lease at the same moment, the later start saves.
    """
    with suppress(FileNotFoundError):
        text = path.read_text()
        if goes_on(path, text, me):
            who = path.read_text().partition("\n")[0]
            raise ConfigError(
                f"{path.parent} is held by {who}, which goes on: end that start first, or choose "
                "another run.name"
            )
        if path.read_text() == text:
            path.unlink()


def goes_on(path: Path, text: str, me: Holder) -> bool:
    """Whether a holder goes on: by its job, by its process, or by a touch that this start sees."""
    who, _, words = text.partition("\n")
    if who and not words:
        return False  # of a program that holds nothing
    with suppress(ValueError, TypeError):  # it is being written
        other = Holder(**json.loads(words))
        if me.job and other.job == me.job and other.number < me.number:
            return False  # a launcher that starts anew has given the start before up
        if me.machine and other.machine == me.machine:
            return other.process != me.process and born(other.process) == other.born
    print(f"{path.parent} was held by {who}: looking whether that start goes on", flush=True)
    before = touched(path)
    for _ in range(LOOKS):  # not for a time: a file server may be silent for minutes
        time.sleep(PAUSE)
        if touched(path) != before:
            return True
    return False


def touched(path: Path) -> int:
    """When a file was touched, by whatever clock; NFS asks its server when a file is opened."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_mtime_ns


def refresh(*folders: Path) -> None:
    """List folders, the outer before the inner: NFS asks its server what is there at a listing.

    Else a node that has looked before does not see for a minute what another node writes.
    """
    for folder in folders:
        with suppress(FileNotFoundError):
            list(folder.iterdir())


def machine() -> str:
    """The kernel, and the container whose process numbers this process sees; '' if not known.

    Where the first process is hidden, as on login nodes, those of other users are, too.
    """
    with suppress(OSError):
        (PROCESSES / "1" / "stat").read_text()
        boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(PROCESSES / 'self/ns/pid').readlink()}"
    return ""


def born(process: int) -> str:
    """When a process of this machine began, in ticks of its kernel; '' where it has ended."""
    try:
        text = (PROCESSES / str(process) / "stat").read_text()
    except OSError:
        return ""
    state, *rest = text.rpartition(") ")[2].split()  # behind the name
    return "" if state in "ZX" else rest[18]


def job() -> tuple[str, int]:
    """The job of this start, as its launcher names it, and the number of the start in the job."""
    folder, slurm, elastic = (
        os.environ.get(name, "")
        for name in (failures.JOB_FOLDER, "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
    )
    begun = Path(folder, "BEGUN")
    number = len(begun.read_text().splitlines()) if folder and begun.is_file() else 1
    number = max(number, 1 + int(os.environ.get("SLURM_RESTART_COUNT", 0)))
    number += int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    if slurm:
        slurm = f"{os.environ.get('SLURM_CLUSTER_NAME', '')} {slurm}"
    return folder or slurm or elastic.removeprefix("none"), number


lease = Lease()  # of this process, as there is one run
