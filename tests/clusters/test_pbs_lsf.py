"""launch/pbs.sh and launch/lsf.sh on two hosts, with stand-ins for the schedulers' commands.

Neither scheduler can be had. The stand-ins do what their manuals say: they start programs on the
hosts of a job, PBS's without environment and folder, and note who asks to be requeued. What the
directives ask for, and how a real scheduler ends a job, is not shown.
"""

import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import network
from tests.clusters.checkpoints import assert_same, last_checkpoint

TRAINED = "train.max_steps=200 train.epochs=50 checkpoint.every_steps=0 ddp.device=cpu"
HOSTS = ("host1", "host2")

COMMANDS = {
    "pbsdsh": """\
# pbsdsh [-n NUMBER] -- COMMAND: for one line of the job's list of hosts, or for all.
mapfile -t chosen <{folder}/nodes
if [[ $1 == -n ]]; then
    chosen=("${chosen[$2]}")
    shift 2
fi
shift
for host in "${chosen[@]}"; do
    (cd / && env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin {folder}/on_"$host" "$@") &
done
wait
""",
    "blaunch": """\
# blaunch -z "HOST ..." COMMAND: on these hosts.
read -ra chosen <<<"$2"
shift 2
for host in "${chosen[@]}"; do
    {folder}/on_"$host" "$@" &
done
wait
""",
    "qrerun": 'echo "$1" >>{folder}/requeued\n',
    "brequeue": 'echo "$1" >>{folder}/requeued\n',
}
VARIABLES = {
    "pbs": {
        "PBS_JOBID": "17.server",
        "PBS_NODEFILE": "{folder}/nodes",
        "PBS_O_WORKDIR": "{work}",
        "NCPUS": "2",  # else each rank has eight threads, on two cores
    },
    "lsf": {"LSB_JOBID": "17", "LSB_DJOB_HOSTFILE": "{folder}/nodes", "LS_SUBCWD": "{work}"},
}


@dataclass(frozen=True)
class Lab:
    """Two hosts, and a scheduler's commands on their PATH."""

    hosts: network.Network
    work: Path

    def start(self, scheduler: str, environment: dict[str, str], name: str) -> "Job":
        """Run a job's script on the first host, as the scheduler would."""
        folder = self.hosts.folder
        variables = {
            variable: text.format(folder=folder, work=self.work)
            for variable, text in VARIABLES[scheduler].items()
        }
        path = f"{folder}/bin:{environment['PATH']}"
        output = self.work / f"{name}.log"
        with output.open("ab") as log:
            process = subprocess.Popen(
                self.hosts.inside("host1", "bash", f"{self.work}/launch/{scheduler}.sh"),
                cwd="/",
                env={**environment, **variables, "PATH": path, "RUN": name, "OVERRIDES": TRAINED},
                stdout=log,
                stderr=log,
            )
        return Job(process, output)

    @property
    def requeued(self) -> list[str]:
        """The jobs that asked for it."""
        return (self.hosts.folder / "requeued").read_text().split()


@dataclass(frozen=True)
class Job:
    """A script that runs."""

    process: subprocess.Popen[bytes]
    output: Path

    def finish(self) -> str:
        """Wait for a good end; returns what was said."""
        status = self.process.wait(300)
        said = self.output.read_text()
        assert status == 0, said
        return said


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[network.Network]:
    network.skip_without(network.PROGRAMS)
    folder = tmp_path_factory.mktemp("pbs-lsf")
    with network.network(HOSTS, folder) as lab:
        for host in HOSTS:
            program(folder / f"on_{host}", f'exec {shlex.join(lab.inside(host))} "$@"\n')
        (folder / "bin").mkdir()
        for name, text in COMMANDS.items():
            program(folder / "bin" / name, text.replace("{folder}", str(folder)))
        # A host once per process or slot.
        (folder / "nodes").write_text("host1\nhost1\nhost2\nhost2\n")
        yield lab


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}")
    path.chmod(0o755)


@pytest.fixture
def lab(hosts: network.Network, project: Callable[..., Path]) -> Lab:
    (hosts.folder / "requeued").write_text("")
    return Lab(hosts, project(clusters=["pbs", "lsf"], nodes=2, gpus_per_node=2))


def told_to_stop(_: Lab, job: Job) -> str:
    """It is told to save and end."""
    job.process.send_signal(signal.SIGUSR1)
    return "it was told to stop, and has saved: back to the queue"


def rank_killed(lab: Lab, _: Job) -> str:
    """A rank of the second host is killed."""
    lab.hosts.signal_rank("host2", signal.SIGKILL)
    return "RuntimeError: "


@pytest.mark.thorough
@pytest.mark.parametrize("disturb", [told_to_stop, rank_killed])
@pytest.mark.parametrize("scheduler", ["pbs", "lsf"])
def test_disturbed_job_asks_to_be_requeued_and_ends_with_the_same_weights(
    scheduler: str,
    disturb: Callable[[Lab, Job], str],
    lab: Lab,
    environment: dict[str, str],
) -> None:
    lab.start(scheduler, environment, "undisturbed").finish()
    expected: dict[str, Any] = last_checkpoint(lab.work / "runs" / "undisturbed")
    assert (expected["step"], expected["world_size"]) == (200, 4)
    assert lab.requeued == []

    job = lab.start(scheduler, environment, "stopped")
    saved = lab.work / "runs" / "stopped" / "checkpoints"
    network.wait_for("a checkpoint", lambda: any(saved.glob("*.json")), 120)
    words = disturb(lab, job)
    said = job.process.wait(120), job.output.read_text()
    assert words in said[1].splitlines()[-1], said
    assert lab.requeued == [{"pbs": "17.server", "lsf": "17"}[scheduler]]
    assert "continuing from step_" in lab.start(scheduler, environment, "stopped").finish()
    assert_same(last_checkpoint(lab.work / "runs" / "stopped"), expected)
    assert len(lab.requeued) == 1
