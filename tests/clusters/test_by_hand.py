"""docs/howto/by-hand.md, followed on two hosts: the commands that the page gives to each."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters import network

HOSTS = ("host1", "host2")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "by-hand.md"
SHORT = "train.max_steps=2 train.epochs=1"
END = 180  # seconds; a busy machine


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[network.Network]:
    network.skip_without(network.PROGRAMS)
    with network.network(HOSTS, tmp_path_factory.mktemp("network")) as found:
        yield found


def commands(part: str, host: str) -> list[str]:
    """What a part of the page tells the user to type on a host."""
    found = re.findall(rf"^{host}\$ (.*)$", part, re.MULTILINE)
    assert found, f"no commands for {host}"
    return found


@pytest.mark.parametrize(
    ("run", "number"), [("first", 0), ("second", 1)], ids=["torchrun", "variables"]
)
def test_page_is_followed_on_two_hosts(
    run: str,
    number: int,
    hosts: network.Network,
    project: Callable[..., Path],
    environment: dict[str, str],
) -> None:
    folder = project(clusters=["ssh"], nodes=2, network="ethernet", interface="eth0")
    part = PAGE.read_text(encoding="utf-8").split("\n## ")[number]
    started = {}
    for host in HOSTS:
        script = "\n".join(commands(part, host))
        script = script.replace(f"run.name={run}", f"run.name={run} {SHORT}")
        started[host] = subprocess.Popen(
            hosts.inside(host, "bash", "-euo", "pipefail", "-c", script),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    for host, task in started.items():
        said = task.communicate(timeout=END)[0]
        assert task.returncode == 0, f"{host}: {said}"
        assert ("on 2 x cpu" in said) == (host == "host1"), said
    assert (folder / "runs" / run / "checkpoints").is_dir()
