"""launch/node.sh on two hosts, one of which is lost: the other ends by itself, and says why."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters import network

# Ranks notice a loss within the timeout; a torchrun that does not has a minute more.
SETTINGS = ["train.epochs=100000", "log.every_steps=10", "ddp.timeout_seconds=20"]
END = 180  # seconds; a busy machine
HOSTS = ("host1", "host2")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[network.Network]:
    network.skip_without(network.PROGRAMS)
    with network.network(HOSTS, tmp_path_factory.mktemp("network")) as found:
        yield found


@pytest.fixture(scope="module", params=[True, False], ids=["checkpoint", "no checkpoint"])
def folder(request: pytest.FixtureRequest, project: Callable[..., Path]) -> Path:
    return project(
        clusters=["pbs"],
        nodes=2,
        gpus_per_node=1,
        network="ethernet",
        interface="eth0",
        checkpoint=request.param,
    )


@pytest.fixture
def nodes(
    request: pytest.FixtureRequest,
    hosts: network.Network,
    folder: Path,
    environment: dict[str, str],
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """What runs on each host, once they train; the output is in files of their names."""
    common = {**environment, "NNODES": "2", "NPROC": "1", "HEAD": "host1", "PORT": "29400"}
    found = {}
    for number, host in enumerate(HOSTS):
        own = {**common, "NODE_RANK": str(number), "JOB": request.node.name}
        command = ["bash", "launch/node.sh", *SETTINGS, f"run.name={request.node.name}"]
        with (folder / host).open("wb") as output:
            found[host] = subprocess.Popen(
                hosts.inside(host, *command), cwd=folder, env=own, stdout=output, stderr=output
            )
    try:
        network.wait_for("training", lambda: "step 10/" in (folder / "host1").read_text(), END)
        yield found
    finally:
        for host, node in found.items():
            hosts.kill(host)
            node.wait()
            hosts.mend(host)


def dies(hosts: network.Network, host: str) -> None:
    """The host loses its power, of which nobody is told."""
    hosts.cut(host)
    hosts.kill(host)


def is_cut_off(hosts: network.Network, host: str) -> None:
    """The host runs on, but nobody reaches it."""
    hosts.cut(host)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("host", "happens", "left"),
    [("host1", dies, ["host2"]), ("host2", dies, ["host1"]), ("host2", is_cut_off, HOSTS)],
)
def test_hosts_that_are_left_end_and_say_why(
    host: str,
    happens: Callable[[network.Network, str], None],
    left: list[str],
    hosts: network.Network,
    folder: Path,
    nodes: dict[str, subprocess.Popen[bytes]],
) -> None:
    happens(hosts, host)
    for name in left:
        status = nodes[name].wait(END)
        said = (folder / name).read_text()
        assert status != 0, said
        number = HOSTS.index(name)
        missing = f"no sign of rank {1 - number}"
        assert missing in said or f"rank {number}: the other ranks cannot be asked" in said
        assert ("torchrun still waits for host1" in said) == (name == "host2")


# torchrun with another clock than the others; Python's own, as a library may not change its sleeps.
SKEWED = """\
#!{python}
import datetime
import os
from torch.distributed import run
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

class Clock(datetime.datetime):
    @classmethod
    def now(cls, zone=None):
        ahead = datetime.timedelta(seconds=float(os.environ["AHEAD"]))
        return datetime.datetime.now(zone) + ahead

dynamic_rendezvous.datetime = Clock
run.main()
"""


@pytest.mark.parametrize("ahead", [-60, pytest.param(60, marks=pytest.mark.thorough)])
def test_hosts_whose_clocks_differ_form_one_world(
    ahead: int,
    hosts: network.Network,
    project: Callable[..., Path],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """torchrun alone waits for a node without end, or ends, where clocks are 15 s apart."""
    folder = project(clusters=["pbs"], nodes=2, network="ethernet", interface="eth0")
    (tmp_path / "torchrun").write_text(SKEWED.format(python=sys.executable))
    (tmp_path / "torchrun").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    common = {**environment, "PATH": path, "NNODES": "2", "NPROC": "1", "HEAD": "host1"}
    common |= {"PORT": "29400", "JOB": f"clock{ahead}"}
    command = ["bash", "launch/node.sh", "train.max_steps=2", "ddp.device=cpu"]
    nodes = []
    try:
        for number, host in enumerate(HOSTS):
            own = {**common, "NODE_RANK": str(number), "AHEAD": str(number * ahead)}
            with (folder / host).open("wb") as output:
                node = subprocess.Popen(
                    hosts.inside(host, *command), cwd=folder, env=own, stdout=output, stderr=output
                )
            nodes.append(node)
        for node in nodes:
            assert node.wait(END) == 0, "".join((folder / host).read_text() for host in HOSTS)
    finally:
        for host in HOSTS:
            hosts.kill(host)
    assert "step 2/2" in (folder / "host1").read_text()
