"""Where the points lie."""

from pathlib import Path

import torch

import data
from support import common


def test_rings_are_one_apart(tmp_path: Path) -> None:
    """Every point is in one split, near the ring of its class."""
    cfg = common.settings(tmp_path).data
    splits = data.open_splits(cfg)
    assert len(splits.train) + len(splits.val) == cfg.points
    for split in (splits.train, splits.val):
        radii = split.inputs.norm(dim=1)
        for ring in range(data.RINGS):
            mean = radii[split.targets == ring].mean()
            torch.testing.assert_close(mean, torch.tensor(1.0 + ring), atol=0.1, rtol=0.0)
