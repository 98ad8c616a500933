"""A job of launch/ssh.sh on four hosts with networks of their own, and all that the job says."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from ddpgen.rendering.render import render
from goodput import rehearsal
from tests.clusters import network, ssh_lab

HOSTS = ("host1", "host2", "host3", "host4")
ANSWERS = {
    "clusters": ["ssh"],
    "nodes": len(HOSTS),
    "gpus_per_node": 1,
    "network": "ethernet",
    "interface": "eth0",
    "saves": "background",
    "watch": ["replicas", "spikes", "ranks", "speed", "files", "starts"],
}
BATCH, LOG, SAVE = 32, 5, 20  # samples of a step; steps from log point to log point, save to save
STEP = 0.5  # seconds of a step's simulated work
VALIDATION = 0.01
BROKEN_ROWS = 4
DISK = 32  # MiB of the runs' file system
PATIENCE = 600  # seconds that the lab waits for what the job must say
TIMEOUT = 20  # seconds of a collective, in place of 600: the lab's hours are short
SETTINGS = (
    "ddp.device=cpu",
    f"ddp.timeout_seconds={TIMEOUT}",
    f"watch.patience_seconds={TIMEOUT // 2}",
    "data.source=lab/rows.csv",
    f"data.validation={VALIDATION}",
    f"train.global_batch_size={BATCH}",
    "train.epochs=1",
    f"log.every_steps={LOG}",
    f"checkpoint.every_steps={SAVE}",
    "model.width=16",
)
PROGRESS = re.compile(r"\] step (\d+)/\d+ ")


class Line(NamedTuple):
    """What the job has said, and when in seconds since the lab's begin."""

    time: float
    text: str


@dataclass
class Job:
    """A launch that runs, and its lines so far."""

    process: subprocess.Popen[str]
    run: Path
    lines: list[Line] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self.read, daemon=True)

    def finish(self, seconds: float | None = None) -> int:
        """Wait for the end, at most so long, and for the last line; returns the exit code."""
        status = self.process.wait(seconds)
        self.reader.join(10)
        return status

    def read(self) -> None:
        """Note each line with its time, until the launch has ended."""
        assert self.process.stdout
        for text in self.process.stdout:
            self.lines.append(Line(self.now(), text.rstrip()))

    def now(self) -> float:
        """Seconds since the job's begin."""
        return time.monotonic() - self.began

    def steps(self) -> Iterator[tuple[float, int]]:
        """Time and number of each step that was said to be done."""
        for line in [*self.lines]:
            if found := PROGRESS.search(line.text):
                yield line.time, int(found[1])

    def goes_on(self, since: float) -> bool:
        """Whether two log points came after a moment, or the job has ended."""
        return self.ended() or sum(at > since for at, _ in self.steps()) >= 2

    def ended(self) -> bool:
        """Whether the launch has ended."""
        return self.process.poll() is not None

    def wait_for(self, words: str, since: float) -> Line:
        """The first line since a moment that has such words, a regular expression."""
        found: list[Line] = []

        def said() -> bool:
            lines = [line for line in [*self.lines] if line.time >= since]
            found.extend(line for line in lines if re.search(words, line.text))
            return bool(found) or self.ended()

        network.wait_for(f"{words!r} in the log", said, PATIENCE)
        if not found:
            raise RuntimeError(f"the job has ended and never said {words!r}:\n{self.end_of_log()}")
        return found[0]

    def wait_for_step(self, step: int, since: float) -> float:
        """When a step, or a later one, was said to be done after a moment."""

        def done() -> list[float]:
            return [at for at, number in self.steps() if at > since and number >= step]

        network.wait_for(f"step {step}", lambda: bool(done()) or self.ended(), PATIENCE)
        if not done():
            raise RuntimeError(f"the job has ended before step {step}:\n{self.end_of_log()}")
        return done()[0]

    def end_of_log(self) -> str:
        """The last lines."""
        return "\n".join(line.text for line in self.lines[-60:])


@dataclass
class Lab:
    """Four hosts, a project that all of them see, and a small disk for its runs."""

    hosts: network.Network
    project: Path
    environment: dict[str, str]
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, seconds: float) -> Job:
        """Start a job whose steps take so long."""
        (self.project / "lab" / rehearsal.SECONDS).write_text(str(seconds))
        command = ["launch/ssh.sh", f"run.name={name}", *SETTINGS]
        process = ssh_lab.start(self.hosts, command, self.project, self.environment)
        job = Job(process, self.project / "runs" / name)
        job.reader.start()
        return job

    def mend(self, host: str) -> None:
        """Have a host back, with its cable and its sshd."""
        self.hosts.mend(host)
        if not self.hosts.processes(host):
            self.servers.append(ssh_lab.start_sshd(self.hosts, host))


@contextmanager
def lab(folder: Path, steps: int, environment: dict[str, str]) -> Iterator[Lab]:
    """Hosts, and a project whose data are used up in so many steps."""
    project = folder / "project"
    render(ANSWERS, project)
    prepare(project, steps)
    with mounted(project / "runs"), ssh_lab.hosts(len(HOSTS)) as hosts:
        made = Lab(hosts, project, environment)
        try:
            yield made
        finally:
            for host in HOSTS:
                hosts.kill(host)
            for server in made.servers:
                server.wait()


@contextmanager
def mounted(disk: Path) -> Iterator[None]:
    """A small disk of its own in a folder; hosts that are made later see it."""
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def prepare(project: Path, steps: int) -> None:
    """The user's edit of model.py, hosts and data: each row is used once, some are broken."""
    shutil.copy(Path(rehearsal.__file__), project / "rehearsal.py")
    model = project / "model.py"
    text = model.read_text()
    for old, new in (
        ("    return MLP(cfg, shape)", "    return rehearsal.follow(MLP(cfg, shape))"),
        ("import data\n", "import data\nimport rehearsal\n"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    model.write_text(text)
    with (project / "launch" / "hosts.txt").open("a") as file:
        file.writelines(f"{host}\n" for host in HOSTS)
    (project / "lab").mkdir()
    rows = round(steps * BATCH / (1 - VALIDATION))
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, 4, generator=generator)
    noise = 0.5 * torch.randn(rows, 4, generator=generator)
    targets = (features + noise).argmax(1)
    for row in torch.randperm(rows, generator=generator)[:BROKEN_ROWS].tolist():
        features[row, 0] = 2 * rehearsal.BROKEN
    with (project / "lab" / "rows.csv").open("w") as file:
        file.write("a,b,c,d,target\n")
        for values, target in zip(features.tolist(), targets.tolist(), strict=True):
            file.write(",".join(f"{value:.4f}" for value in values) + f",{'wxyz'[target]}\n")
