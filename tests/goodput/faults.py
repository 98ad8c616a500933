"""What befalls the job: each kind begins, is over after a while, and has to be named in the log."""

import random
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from goodput import rehearsal
from goodput.lab import DISK, HOSTS, PATIENCE, Job, Lab
from tests.clusters import network


class Fault(NamedTuple):
    """A kind of fault. `named` is what the log has to say, a regular expression."""

    name: str
    begin: Callable[[Lab, str], None]  # on a host
    named: str  # {host} stands for the host's name, {address} for its address
    end: Callable[[Lab, str], None] | None = None  # as soon as the fault is named


def kill_rank(lab: Lab, host: str) -> None:
    lab.hosts.signal_rank(host, signal.SIGKILL)


def stop_rank(lab: Lab, host: str) -> None:
    lab.hosts.signal_rank(host, signal.SIGSTOP)


def lose_power(lab: Lab, host: str) -> None:
    lab.hosts.kill(host)


def cut_cable(lab: Lab, host: str) -> None:
    lab.hosts.cut(host)


def mend(lab: Lab, host: str) -> None:
    lab.mend(host)


def flip_bit(lab: Lab, host: str) -> None:
    (lab.project / "lab" / f"{rehearsal.FLIP}-{host}").touch()


def slow_down(lab: Lab, host: str) -> None:
    (lab.project / "lab" / f"{rehearsal.SLOW}-{host}").touch()


def speed_up(lab: Lab, host: str) -> None:
    (lab.project / "lab" / f"{rehearsal.SLOW}-{host}").unlink()


def fill_disk(lab: Lab, _: str) -> None:
    command = ["dd", "if=/dev/zero", f"of={lab.project}/runs/full", "bs=64K", f"count={16 * DISK}"]
    subprocess.run(command, capture_output=True, check=False)  # ends when nothing is left


def free_disk(lab: Lab, _: str) -> None:
    (lab.project / "runs" / "full").unlink()


SILENT = r"no sign of rank \d+ on {host}"
ALONE = r"nobody can be asked: .*connect to \({host}"  # of the host where all ask
FAULTS = [
    Fault("a rank is killed", kill_rank, r"\[{host}\].*(SIGKILL|exitcode +: -9)"),
    Fault("a host loses its power", lose_power, r"\[{address}\]", mend),
    Fault("a cable is cut", cut_cable, f"{SILENT}|{ALONE}", mend),
    Fault("a rank hangs", stop_rank, SILENT),
    Fault("a bit flips in a rank's memory", flip_bit, r"than most: rank \d+ on {host}"),
    Fault("a rank is slow", slow_down, r"rank \d+ on {host} is \d+ % slower", speed_up),
    Fault("the disk is full", fill_disk, r"no checkpoint was written", free_disk),
]


class Planned(NamedTuple):
    """A fault, and when and where it happens."""

    at: float  # seconds since the job's begin
    fault: Fault
    host: str


def plan(chance: random.Random, seconds: float) -> list[Planned]:
    """Each kind once, in any order, at times that know nothing of each other.

    Times of a Poisson process are spread evenly, given their number.
    """
    times = sorted(chance.uniform(0.05, 0.9) * seconds for _ in FAULTS)
    order = chance.sample(FAULTS, len(FAULTS))
    return [Planned(at, f, chance.choice(HOSTS)) for at, f in zip(times, order, strict=True)]


@dataclass
class Happened:
    """What became of a fault: seconds since it began, and the words of the log."""

    fault: str
    host: str
    at: float
    named: float
    next_step: float  # later than all steps before
    words: str


def happen(lab: Lab, job: Job, planned: Planned) -> Happened | None:
    """Let a fault happen at its time, and wait until steps go on; None where the job has ended."""
    _, fault, host = planned
    network.wait_for("its time", lambda: job.ended() or job.now() >= planned.at, 10**5)
    seen = job.now()
    network.wait_for("steps", lambda: job.goes_on(seen), PATIENCE)
    if job.ended():
        return None
    begun, most = job.now(), max(step for _, step in job.steps())
    fault.begin(lab, host)
    try:
        line = job.wait_for(fault.named.format(host=host, address=lab.hosts.address(host)), begun)
    finally:
        if fault.end:
            fault.end(lab, host)
    after = job.wait_for_step(most + 1, line.time)
    return Happened(fault.name, host, begun, line.time - begun, after - begun, line.text)
