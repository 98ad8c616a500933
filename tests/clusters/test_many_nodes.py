"""Launch files on more nodes than training could have here: each rank says where it is."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters import slurm_lab
from tests.clusters.slurm_jobs import submit

PROGRAM = """\
import json, os, sys
from pathlib import Path

if "--prepare-only" not in sys.argv:
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
    found = {name: os.environ[name] for name in names}
    found["host"] = os.uname().nodename
    Path("world", found["RANK"]).write_text(json.dumps(found))
"""
NODES = 64


@pytest.fixture(scope="module")
def large() -> Iterator[slurm_lab.Lab]:
    """Nodes with one GPU each."""
    slurm_lab.skip_if_impossible()
    with slurm_lab.cluster(NODES, cpus=1, gpus=1) as cluster:
        yield cluster


@pytest.mark.thorough
@pytest.mark.parametrize("script", ["launch/slurm.sbatch", "launch/slurm_direct.sbatch"])
def test_every_node_has_its_ranks(
    script: str,
    large: slurm_lab.Lab,
    project: Callable[..., Path],
    environment: dict[str, str],
) -> None:
    folder = project(clusters=["slurm"], nodes=NODES, gpus_per_node=1, cpus_per_gpu=1)
    (folder / "world").mkdir()
    (folder / "world.py").write_text(PROGRAM)
    job = submit(large, folder, {**environment, "PROGRAM": "world.py"}, script=script)
    log = job.finish(seconds=900)
    found = [json.loads(path.read_text()) for path in (folder / "world").iterdir()]
    assert {rank["RANK"] for rank in found} == {str(rank) for rank in range(NODES)}, log
    assert {rank["host"] for rank in found} == {f"node{i + 1}" for i in range(NODES)}
    assert {rank["WORLD_SIZE"] for rank in found} == {str(NODES)}
    assert {rank["LOCAL_RANK"] for rank in found} == {"0"}
    assert len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in found}) == 1
