"""launch/ssh.sh, from one host to two others, each with a network and an sshd of its own."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters import hosts_lab
from tests.clusters.slurm_lab import processes_of, wait_for


@pytest.fixture(scope="module")
def hosts() -> Iterator[hosts_lab.Hosts]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if missing := hosts_lab.missing_programs():
        pytest.skip(f"missing: {', '.join(missing)} (tests/clusters/install.sh installs them)")
    with hosts_lab.hosts() as lab:
        yield lab


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
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


def start(
    hosts: hosts_lab.Hosts, folder: Path, environment: dict[str, str], *arguments: str
) -> subprocess.Popen[str]:
    return hosts.start("login", "launch/ssh.sh", *arguments, cwd=folder, env=environment)


def test_two_hosts_form_one_world(
    hosts: hosts_lab.Hosts, folder: Path, environment: dict[str, str]
) -> None:
    arguments = ("run.name=two", "train.max_steps=1", "train.epochs=1")
    launch = start(hosts, folder, environment, *arguments)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    (manifest,) = (folder / "runs" / "two" / "checkpoints").glob("*.json")
    assert json.loads(manifest.read_text())["world_size"] == 4
    assert "[host1] step 1/1" in output
    assert not processes_of(folder)


def test_preflight_names_both_hosts(
    hosts: hosts_lab.Hosts, folder: Path, environment: dict[str, str]
) -> None:
    checks = {**environment, "PROGRAM": "preflight.py"}
    launch = start(hosts, folder, checks)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert "host1 (10.213.0.1)" in output
    assert "host2 (10.213.0.2)" in output
    assert "4 ranks on 2 hosts, expected 4" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_end_of_the_launcher_ends_all_hosts(
    number: signal.Signals, hosts: hosts_lab.Hosts, folder: Path, environment: dict[str, str]
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
    wait_for("the end of all processes", lambda: not processes_of(folder), 90)
    # They were told to end, not killed: what was learnt is saved.
    assert (folder / "runs" / name / "REQUEUE").exists(), output
