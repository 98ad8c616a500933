"""launch/ssh.sh, from one host to two others, each with a network and an sshd of its own."""

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import network, page, ssh_lab
from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.times import Log

ON_CPU = "ddp.device=cpu"  # the last one counts
LONG = (  # about a quarter of a minute on two cores
    "train.global_batch_size=64",  # epochs of 23 steps
    "train.max_steps=400",
    "train.epochs=1000",
    "checkpoint.every_steps=50",
    "ddp.timeout_seconds=20",
)


def dies(hosts: network.Network, host: str) -> None:
    """The host loses its power."""
    hosts.kill(host)


def is_cut_off(hosts: network.Network, host: str) -> None:
    """The host runs on, but nobody reaches it."""
    hosts.cut(host)


def loses_a_rank(hosts: network.Network, host: str) -> None:
    """One of the host's ranks is killed."""
    hosts.signal_rank(host, signal.SIGKILL)


def hangs(hosts: network.Network, host: str) -> None:
    """One of the host's ranks does nothing any more."""
    hosts.signal_rank(host, signal.SIGSTOP)


@pytest.fixture(scope="module")
def hosts() -> Iterator[network.Network]:
    network.skip_without(ssh_lab.PROGRAMS)
    with ssh_lab.hosts() as lab:
        yield lab


@pytest.fixture(scope="module")
def rendered(project: Callable[..., Path]) -> Path:
    folder = project(
        clusters=["ssh"],
        nodes=2,
        gpus_per_node=2,
        network="ethernet",
        interface="eth0",
    )
    with (folder / "launch" / "hosts.txt").open("a") as file:
        file.write("host1\nroot@host2  # the second\n\n")
    return folder


@pytest.fixture
def folder(rendered: Path) -> Path:
    """The project, without a run that a first try has left."""
    shutil.rmtree(rendered / "runs", ignore_errors=True)
    return rendered


def start(
    hosts: network.Network, folder: Path, environment: dict[str, str], *arguments: str
) -> subprocess.Popen[str]:
    return ssh_lab.start(hosts, ["launch/ssh.sh", *arguments, ON_CPU], folder, environment)


def test_two_hosts_form_one_world(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    arguments = ("run.name=two", "train.max_steps=1", "train.epochs=1")
    launch = start(hosts, folder, environment, *arguments)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    (manifest,) = (folder / "runs" / "two" / "checkpoints").glob("*.json")
    assert json.loads(manifest.read_text())["world_size"] == 4
    assert "[host1] step 1/1" in output
    assert not network.processes_of(folder)


@pytest.fixture
def nameless(hosts: network.Network, folder: Path) -> Iterator[Path]:
    """The project, on hosts that know each other's addresses only."""
    names, listed = hosts.folder / "hosts", folder / "launch" / "hosts.txt"
    known, given = names.read_text(), listed.read_text()
    names.write_text("127.0.0.1 localhost\n")
    listed.write_text("".join(f"root@{hosts.address(host)}\n" for host in ("host1", "host2")))
    yield folder
    names.write_text(known)
    listed.write_text(given)


def test_hosts_that_know_no_names_form_one_world(
    hosts: network.Network, nameless: Path, environment: dict[str, str]
) -> None:
    arguments = ("run.name=nameless", "train.max_steps=1", "train.epochs=1")
    launch = start(hosts, nameless, environment, *arguments, "ddp.timeout_seconds=20")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    (manifest,) = (nameless / "runs" / "nameless" / "checkpoints").glob("*.json")
    assert json.loads(manifest.read_text())["world_size"] == 4


def test_preflight_names_both_hosts(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    checks = {**environment, "PROGRAM": "-m tools.preflight"}
    launch = start(hosts, folder, checks)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert "host1 (10.213.0.1)" in output
    assert "host2 (10.213.0.2)" in output
    assert "4 ranks on 2 hosts, expected 4" in output


@pytest.mark.disturbed("The launcher is told to end, or killed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_end_of_the_launcher_ends_all_hosts(
    number: signal.Signals, hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    name = f"stopped-{number.name}"
    launch = start(hosts, folder, environment, f"run.name={name}", "train.epochs=100000")
    assert launch.stdout
    for line in launch.stdout:
        if "] step " in line:
            break
    launch.send_signal(number)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode != 0
    network.wait_for("the end of all processes", lambda: not network.processes_of(folder), 90)
    # They were told to end, not killed: what was learnt is saved.
    assert (folder / "runs" / name / "REQUEUE").exists(), output


@pytest.fixture(scope="module")
def undisturbed(
    hosts: network.Network, rendered: Path, environment: dict[str, str]
) -> dict[str, Any]:
    """The last checkpoint of a run that nothing happened to."""
    launch = start(hosts, rendered, environment, "run.name=undisturbed", *LONG)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    return last_checkpoint(rendered / "runs" / "undisturbed")


@pytest.fixture
def repaired(hosts: network.Network, host: str) -> Iterator[Callable[[], None]]:
    """Brings the host back; also done afterwards."""
    servers: list[subprocess.Popen[bytes]] = []

    def repair() -> None:
        hosts.mend(host)
        if not hosts.processes(host):
            servers.append(ssh_lab.start_sshd(hosts, host))

    yield repair
    repair()


@pytest.mark.thorough
@pytest.mark.parametrize("happens", [dies, is_cut_off, loses_a_rank, hangs])
@pytest.mark.parametrize("host", ["host1", "host2"])
def test_launch_starts_again_after_a_mishap_and_ends_with_the_same_weights(
    happens: Callable[[network.Network, str], None],
    host: str,
    repaired: Callable[[], None],
    hosts: network.Network,
    folder: Path,
    environment: dict[str, str],
    undisturbed: dict[str, Any],
    record_property: Callable[[str, object], None],
) -> None:
    """Within three minutes all that is left has ended; with the host back, the run goes on."""
    run = folder / "runs" / f"{host}-{happens.__name__}"
    launch = start(hosts, folder, environment, f"run.name={run.name}", *LONG)
    network.wait_for("a checkpoint", lambda: any(run.glob("checkpoints/*.json")), 120)
    mishap = time.monotonic()
    happens(hosts, host)
    watch = threading.Timer(180, launch.kill)
    watch.start()
    assert launch.stdout
    said: list[str] = []
    log = Log(lambda: "".join([*said]))
    for line in launch.stdout:
        said.append(line)
        if line.endswith(": starts again\n"):
            watch.cancel()
            repaired()
    output = "".join(said)
    assert launch.wait(300) == 0, output
    assert "continuing from step_" in output
    assert_same(last_checkpoint(run), undisturbed)
    record_property(page.TIMES, log.times(mishap))


def test_mistake_ends_the_launch(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    launch = start(hosts, folder, environment, "train.epoch=3")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 2, output
    assert "unknown key train.epoch" in output
    assert "starts again" not in output
