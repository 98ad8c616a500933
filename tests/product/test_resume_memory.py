"""A resume takes as much of a node's memory as the state, however many ranks the node has."""

import json
import shutil
from itertools import chain, product
from pathlib import Path

import pytest

from product import forkserver, template
from product.programs import completed

# Beside these what threads and allocators take is little: 200 MB of weights and moments.
SIZE = ["model.width=1024", "model.depth=4", "train.global_batch_size=64", "train.max_steps=2"]
BOUND = 1.2  # of the state, of which a mapped file is 1
OFTEN = [("off", "blocking", 2), ("fsdp", "shards", 2)]
EVERY = product(("off",), ("blocking", "background"), (1, 2, 4))
SHARED = product(("fsdp",), ("blocking", "shards"), (1, 2, 4))
SELDOM = [row for row in chain(EVERY, SHARED) if row not in OFTEN]


@pytest.mark.parametrize(
    ("sharding", "saves", "ranks"),
    [*OFTEN, *(pytest.param(*row, marks=pytest.mark.thorough) for row in SELDOM)],
)
def test_host_memory_of_a_resume(sharding: str, saves: str, ranks: int, tmp_path: Path) -> None:
    """The moments are no part of what a resume takes: they lie on the device, here the CPU."""
    answers = {"model": "mlp", "checkpoint": True, "sharding": sharding, "saves": saves}
    template.write(completed(answers), tmp_path)
    overrides = [*SIZE, "run.name=large"]
    first = forkserver.train(tmp_path, ranks, overrides)
    assert first.codes == [0] * ranks, first.output[-2000:]
    (tmp_path / "train.py").rename(tmp_path / "original.py")
    shutil.copy(Path(__file__).with_name("resumed.py"), tmp_path / "train.py")
    second = forkserver.train(tmp_path, ranks, overrides)
    assert second.codes == [0] * ranks, second.output[-2000:]
    found = [json.loads((tmp_path / f"resumed{rank}.json").read_text()) for rank in range(ranks)]
    assert all(words.startswith("continuing from") for words, _ in found)
    files = (tmp_path / "runs" / "large" / "checkpoints").rglob("*")
    state = sum(path.stat().st_size for path in files if path.is_file())
    moments = 2 / 3 * state * (1 if sharding == "fsdp" else ranks)
    beyond = (sum(most for _, most in found) - moments) / state + (saves != "shards")
    print(f"{ranks} ranks, sharding={sharding}, saves={saves}: {beyond:.2f} of {state:,} bytes")
    assert beyond <= BOUND
