"""What a run has learnt, to compare it with another."""

import json
from pathlib import Path
from typing import Any

import torch


def last_checkpoint(run: Path) -> dict[str, Any]:
    """What training changed, by the newest checkpoint of a run, and the size of its world."""
    *_, newest = sorted((run / "checkpoints").glob("*.json"))
    content = torch.load(newest.with_suffix(".pt"), weights_only=True)
    del content["config"]  # it has the run's name
    return {"world_size": json.loads(newest.read_text())["world_size"], **content}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Every number and tensor is the same, bit for bit."""
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
