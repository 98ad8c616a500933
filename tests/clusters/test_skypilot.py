"""launch/skypilot.sh on two hosts, with the variables that SkyPilot sets.

No cloud can be reached: hosts that die stand for machines that are taken away, and a second start
for what SkyPilot does then. The bucket is a folder that both hosts see.
"""

import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters import network
from tests.clusters.checkpoints import assert_same, last_checkpoint

Nodes = list[subprocess.Popen[bytes]]

HOSTS = ("host1", "host2")
TRAINED = (
    "train.max_steps=150 train.epochs=50 checkpoint.every_steps=0 ddp.timeout_seconds=30"
    " ddp.device=cpu"
)


def start(hosts: network.Network, work: Path, environment: dict[str, str], run: str) -> Nodes:
    """The job's command on each host, as SkyPilot's agents start it."""
    job = {
        "SKYPILOT_TASK_ID": f"sky-managed-{uuid.uuid4()}",
        "SKYPILOT_NUM_NODES": str(len(HOSTS)),
        "SKYPILOT_NUM_GPUS_PER_NODE": "2",
        "SKYPILOT_NODE_IPS": "\n".join(map(hosts.address, HOSTS)),
        "HOME": str(hosts.folder),
        "OVERRIDES": TRAINED,
        "RUN": run,
    }
    nodes = []
    for rank, host in enumerate(HOSTS):
        with (work / f"{run}-{host}.log").open("ab") as log:
            nodes.append(
                subprocess.Popen(
                    hosts.inside(host, "bash", "launch/skypilot.sh"),
                    cwd=work,
                    env={**environment, **job, "SKYPILOT_NODE_RANK": str(rank)},
                    stdout=log,
                    stderr=log,
                )
            )
    return nodes


@pytest.mark.thorough
@pytest.mark.disturbed("Both machines are taken away")
def test_job_whose_machines_are_taken_away_ends_with_the_same_weights(
    project: Callable[..., Path], environment: dict[str, str], tmp_path: Path
) -> None:
    network.skip_without(network.PROGRAMS)
    work = project(clusters=["skypilot"], nodes=2, gpus_per_node=2)
    runs = tmp_path / "runs"
    with network.network(HOSTS, tmp_path) as hosts:
        for node in start(hosts, work, environment, "undisturbed"):
            assert node.wait(300) == 0, (work / "undisturbed-host1.log").read_text()
        expected = last_checkpoint(runs / "undisturbed")
        assert (expected["step"], expected["world_size"]) == (150, 4)

        start(hosts, work, environment, "disturbed")
        saved = runs / "disturbed" / "checkpoints"
        network.wait_for("a checkpoint", lambda: bool(list(saved.glob("*.json"))), 120)
        for host in HOSTS:
            hosts.kill(host)
        for node in start(hosts, work, environment, "disturbed"):
            assert node.wait(300) == 0, (work / "disturbed-host1.log").read_text()
        assert "continuing from step_" in (work / "disturbed-host1.log").read_text()
        assert_same(last_checkpoint(runs / "disturbed"), expected)


READ = """
import sky
task = sky.Task.from_yaml("launch/skypilot.yaml")
(resources,) = task.resources
print(task.name, task.num_nodes, resources.accelerators, resources.image_id, *task.storage_mounts)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("container", ["none", "docker"])
def test_skypilot_reads_the_task(container: str, project: Callable[..., Path]) -> None:
    """Its own reader refuses fields that it does not know."""
    work = project(clusters=["skypilot"], nodes=2, gpus_per_node=8, container=container)
    uv = [Path(sys.executable).with_name("uv"), "run", "--no-project", "--quiet"]
    done = subprocess.run(
        [*uv, "--with", "skypilot==0.14.1", "python", "-c", READ],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    image = {"none": "None", "docker": "{None: 'docker:my-project:latest'}"}[container]
    assert done.stdout.split("\n")[-2] == f"my-project 2 {{'H100': 8}} {image} ~/runs"
