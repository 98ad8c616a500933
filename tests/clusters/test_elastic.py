"""torchrun's own recovery on two hosts with real networks: docs/reference/launch-files.md."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from chaos.lab import write_project

from tests.clusters import network
from tests.clusters.network import wait_for

STEPS = 90
SETTINGS = [
    "run.name=run",
    "model.dropout=0",  # each rank draws its own
    "train.epochs=1000",
    f"train.max_steps={STEPS}",
    "checkpoint.every_steps=5",
    "checkpoint.keep=1000",
    "log.every_steps=1",
    "ddp.timeout_seconds=20",
]
# By default the launcher that is left waits half a minute for others to come.
ELASTIC = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d"]
MEETING = ["--rdzv-endpoint=host1:29400", "--rdzv-conf=last_call_timeout=3"]
RESTART = "closing signal SIGTERM"  # torchrun, when it ends its ranks to start them anew
UNREACHABLE = "rank 1: the other ranks cannot be asked"
END = 240  # seconds; a busy machine


@dataclass
class Launch:
    """torchrun on the hosts, with one rank each, in one folder that both see."""

    hosts: network.Network
    project: Path
    folder: str
    environment: dict[str, str]
    launchers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, host: str) -> None:
        """Start the host's launcher; its output goes to the end of a file."""
        command = [sys.executable, "-m", "torch.distributed.run", *ELASTIC, *MEETING]
        command += [f"--rdzv-id={self.folder}", "train.py", *SETTINGS, f"run.folder={self.folder}"]
        with self.output(host).open("ab") as output:
            self.launchers[host] = subprocess.Popen(
                self.hosts.inside(host, *command),
                cwd=self.project,
                env=self.environment,
                stdout=output,
                stderr=output,
            )

    def output(self, host: str) -> Path:
        """Where the host's launcher and its rank write."""
        return self.project / f"{self.folder}-{host}.txt"

    def said(self, host: str) -> str:
        """What they have written."""
        return self.output(host).read_text()

    def rank(self, host: str) -> int:
        """The process that trains on a host."""
        launcher = self.launchers[host].pid
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        return int(children[0])

    def checkpoints(self) -> list[dict[str, Any]]:
        """What the manifests say, the first step first."""
        paths = (self.project / self.folder / "run" / "checkpoints").glob("*.json")
        return [json.loads(path.read_text()) for path in sorted(paths)]

    def wait_for_world(self, size: int) -> None:
        """Wait for a checkpoint by so many ranks that is newer than all others."""
        wait_for(
            f"a checkpoint of {size} ranks",
            lambda: [entry["world_size"] for entry in self.checkpoints()][-1:] == [size],
            END,
        )

    def ends(self, host: str) -> int:
        """The launcher's status."""
        with suppress(subprocess.TimeoutExpired):
            return self.launchers[host].wait(END)
        raise TimeoutError(self.said(host)[-3000:])


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[network.Network]:
    network.skip_without(network.PROGRAMS)
    with network.network(["host1", "host2"], tmp_path_factory.mktemp("network")) as found:
        yield found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A project that one undisturbed process has trained."""
    folder = tmp_path_factory.mktemp("elastic") / "project"
    write_project(folder)
    whole = [sys.executable, "train.py", *SETTINGS, "run.folder=whole"]
    subprocess.run(whole, cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def launch(
    request: pytest.FixtureRequest,
    hosts: network.Network,
    project: Path,
    environment: dict[str, str],
) -> Iterator[Launch]:
    """Both launchers, once the first checkpoint is there; afterwards nothing is left of them."""
    # With the store that torchrun shares between restarts, ranks find addresses of dead ones.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    found = Launch(hosts, project, request.node.name, {**environment, **own_store})
    try:
        for host in hosts.names:
            found.start(host)
        found.wait_for_world(2)
        yield found
    finally:
        for host, launcher in found.launchers.items():
            hosts.kill(host)
            launcher.wait()
            hosts.mend(host)


def rank_dies(launch: Launch) -> None:
    """A rank of the second host is killed."""
    os.kill(launch.rank("host2"), signal.SIGKILL)


def host_dies(launch: Launch) -> None:
    """All that runs on the second host is killed."""
    launch.hosts.kill("host2")


@pytest.mark.thorough
@pytest.mark.parametrize(("lost", "status"), [(rank_dies, 0), (host_dies, -signal.SIGKILL)])
def test_training_goes_on_without_what_is_lost(
    lost: Callable[[Launch], None], status: int, launch: Launch
) -> None:
    lost(launch)
    assert launch.ends("host1") == 0, launch.said("host1")
    assert launch.ends("host2") == status, launch.said("host2")
    assert "continuing from" in launch.said("host1")
    check_end(launch)


@pytest.mark.thorough
@pytest.mark.disturbed("The link is cut")
def test_link_that_is_cut_leaves_one_world(launch: Launch) -> None:
    launch.hosts.cut("host2")
    assert launch.ends("host1") == 0, launch.said("host1")
    check_end(launch)
    wait_for("the rank's message", lambda: UNREACHABLE in launch.said("host2"), END)
    # torchrun itself waits for the lost host until its network tells it something.
    launch.hosts.mend("host2")
    assert launch.ends("host2") == 1, launch.said("host2")
    check_end(launch)


@pytest.mark.thorough
@pytest.mark.disturbed("The second host loses its power, and is started again")
def test_host_that_returns_trains_again(launch: Launch) -> None:
    launch.hosts.cut("host2")  # it loses its power: nobody is told
    launch.hosts.kill("host2")
    launch.launchers["host2"].wait()
    launch.wait_for_world(1)
    alone = launch.rank("host1")
    os.kill(alone, signal.SIGSTOP)  # or it would have done all steps before the other is back
    restarts = launch.said("host1").count(RESTART)
    launch.hosts.mend("host2")
    launch.start("host2")
    wait_for("a restart", lambda: launch.said("host1").count(RESTART) > restarts, END)
    os.kill(alone, signal.SIGCONT)
    assert launch.ends("host1") == 0, launch.said("host1")
    assert launch.ends("host2") == 0, launch.said("host2")
    worlds = itertools.groupby(entry["world_size"] for entry in launch.checkpoints())
    assert [size for size, _ in worlds] == [2, 1, 2]
    check_end(launch)


@pytest.mark.thorough
@pytest.mark.disturbed("All that runs on the host where all meet is killed")
def test_loss_of_the_host_where_all_meet_ends_the_other(launch: Launch) -> None:
    launch.hosts.kill("host1")
    assert launch.ends("host2") == 1
    assert UNREACHABLE in launch.said("host2")


def check_end(launch: Launch) -> None:
    """Every step was done once, on the samples of one undisturbed process, to the same weights."""
    runs = [launch.project / name / "run" for name in (launch.folder, "whole")]
    losses, expected_losses = map(train_losses, runs)
    assert list(losses) == list(range(1, STEPS + 1))
    weights, expected = (
        torch.load(run / "checkpoints" / f"step_{STEPS:08d}.pt", weights_only=True)["model"]
        for run in runs
    )
    # Sums in another order differ in their last bits, and Adam's division spreads them.
    torch.testing.assert_close(losses, expected_losses, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(dict(weights), dict(expected), rtol=1e-2, atol=1e-3)


def train_losses(run: Path) -> dict[int, float]:
    """Step -> loss, as the history has them; one that comes twice is an error."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    pairs = [(row["step"], row["train_loss"]) for row in rows if "train_loss" in row]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
