"""Accumulated micro-batches equal one large batch (catalogue: G3-G5)."""

from pathlib import Path

import pytest

import common
import ranks

TOLERANCE = 1e-10


@pytest.mark.parametrize("first", [0, -2], ids=["first steps", "end of the epoch"])
def test_micro_batches_equal_the_large_batch(first: int, tmp_path: Path) -> None:
    """G4 G5: whatever the size of the micro-batch, the last, shorter window included."""
    found = []
    for size in (12, 2):
        cfg = common.settings(tmp_path, f"train.micro_batch_size={size}")
        found += ranks.run(1, common.record, cfg, first, 3)
    large, small = found
    assert small.losses == pytest.approx(large.losses, abs=TOLERANCE)
    assert small.norms == pytest.approx(large.norms, abs=TOLERANCE)
    assert common.difference(small.weights, large.weights) < TOLERANCE
