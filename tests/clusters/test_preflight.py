"""The preflight on hosts with networks, folders and limits of their own, some of them wrong."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import network

HOSTS = ("host1", "host2", "host3")
AS_IT_IS = "true"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[network.Network]:
    network.skip_without(network.PROGRAMS)
    with network.network(HOSTS, tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(nodes=3, clusters=["slurm"])


def check(
    hosts: network.Network,
    folder: Path,
    environment: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *arguments: str,
) -> tuple[list[int], list[str], dict[str, Any]]:
    """Start one rank on each host, as `slurm_direct.sbatch` does.

    Args:
        before: what the shell of a host does first, in namespaces of its own.

    Returns: exit codes, all that each rank said, and the table of rank 0.
    """
    found = folder / "found.json"
    found.unlink(missing_ok=True)
    ranks = []
    for rank, host in enumerate(HOSTS):
        place = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(len(HOSTS))}
        meeting = {"MASTER_ADDR": "host1", "MASTER_PORT": "29500"}
        script = f'{(before or {}).get(host, AS_IT_IS)} && exec "$@"'
        program = [sys.executable, "-m", "tools.preflight", "--json=found.json", *arguments]
        ranks.append(
            subprocess.Popen(
                hosts.inside(host, "bash", "-ec", script, "-", *program),
                cwd=folder,
                env={**environment, **place, **meeting},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    table = {}
    if found.exists():
        table = {line["name"]: line for line in json.loads(found.read_text())["checks"]}
    return [rank.returncode for rank in ranks], said, table


def test_nothing_is_wrong_on_three_hosts(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    codes, said, table = check(hosts, folder, environment, None, "ddp.expected_world_size=3")
    assert codes == [0, 0, 0], said
    assert "host3 (10.213.0.3)  rank 2" in said[0]
    assert table["world"]["found"] == "3 ranks on 3 hosts, expected 3"
    assert table["network interface"]["found"] == "eth0"
    assert table["hosts reach each other"]["found"] == "all 6 ways"
    assert table["clocks"]["verdict"] == "ok"
    assert not [line for line in table.values() if line["verdict"] == "FAILED"]


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        ("blackhole", "Invalid argument"),
        pytest.param("unreachable", "No route to host", marks=pytest.mark.thorough),
    ],
)
def test_the_one_pair_that_cannot_talk_is_named(
    route: str,
    reason: str,
    hosts: network.Network,
    folder: Path,
    environment: dict[str, str],
) -> None:
    """And it ends soon: a process group would only wait, and not say for whom."""
    wall = ["ip", "-n", f"{hosts.prefix}-host2", "route"]
    subprocess.run([*wall, "add", route, hosts.address("host3")], check=True)
    try:
        codes, said, table = check(hosts, folder, environment)
    finally:
        subprocess.run([*wall, "delete", route, hosts.address("host3")], check=True)
    assert codes == [1, 1, 1], said
    # Answers to host3 do not come through either.
    broken = f"host2 to host3: {reason}, host3 to host2: timed out"
    assert table["hosts reach each other"] == {
        "name": "hosts reach each other",
        "verdict": "FAILED",
        "found": broken,
    }
    assert "all-reduce is wrong" not in table
    codes, said, _ = check(hosts, folder, environment)
    assert codes == [0, 0, 0], f"with the route as before: {said}"


def test_what_differs_on_one_host_is_named(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    """A folder of its own, another Python, few open files."""
    other = folder.parent / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import platform\nplatform.python_version = lambda: '3.8.0'\n"
    )
    (folder / "runs").mkdir(exist_ok=True)
    changes = {
        "host2": "mount -t tmpfs none runs && ulimit -n 512",
        "host3": f"export PYTHONPATH='{other}'",
    }
    codes, said, table = check(hosts, folder, environment, changes)
    assert codes == [1, 1, 1], said
    failed = {name: line["found"] for name, line in table.items() if line["verdict"] == "FAILED"}
    assert set(failed) == {"run folder is shared", "versions"}
    assert "No such file or directory for rank 1 on host2" in failed["run folder is shared"]
    assert "Python 3.8.0" in failed["versions"]
    assert failed["versions"].endswith("on rank 2")
    assert table["open files"]["verdict"] == "note"
    assert "at most 512 on rank 1 on host2" in table["open files"]["found"]
    assert table["all-reduce is wrong"]["verdict"] == "ok"


@pytest.mark.thorough
def test_hosts_whose_own_names_mean_the_loopback_are_named(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    """Debian's installer writes such lines; Gloo would wait where no other host can come."""
    changes = {}
    for host in HOSTS[1:]:
        names = folder.parent / f"names-{host}"
        names.write_text(f"{hosts.address('host1')} host1\n127.0.1.1 {host}\n")
        changes[host] = f"mount --bind '{names}' /etc/hosts"
    codes, said, table = check(hosts, folder, environment, changes)
    assert codes == [1, 1, 1], said
    assert table["network interface"]["verdict"] == "FAILED"
    assert "host2: its own name means 127.0.1.1" in table["network interface"]["found"]
    remedy = {host: f"{bind} && export GLOO_SOCKET_IFNAME=eth0" for host, bind in changes.items()}
    codes, said, _ = check(hosts, folder, environment, remedy)
    assert codes == [0, 0, 0], said


@pytest.mark.thorough
def test_a_host_that_does_not_know_where_to_meet_says_so(
    hosts: network.Network, folder: Path, environment: dict[str, str]
) -> None:
    (folder.parent / "empty").write_text("127.0.0.1 localhost\n")
    changes = {"host3": f"mount --bind '{folder.parent}/empty' /etc/hosts"}
    codes, said, _ = check(hosts, folder, environment, changes, "ddp.timeout_seconds=15")
    assert codes == [1, 1, 1], said
    assert "rank 2 on host3 cannot resolve the name host1" in said[2]
    assert "no sign of rank 2 within 15 s" in said[0]
