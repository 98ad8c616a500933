"""The checkpoints of a run, listed and verified."""

from pathlib import Path

import pytest
import torch

from engine import checkpoint
from tools import checkpoints


def save(run: Path, step: int, best_step: int = 0) -> Path:
    """A small checkpoint."""
    path = checkpoint.path_of(run, step)
    weights = {"weight": torch.full((2, 2), float(step))}
    content = {"model": weights, "step": step, "best_step": best_step, "config": {}}
    checkpoint.write(path, content, world_size=2)
    return path


def test_damage_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of checkpoints, and the exit code of `verify`."""
    save(tmp_path, 2, best_step=2)
    save(tmp_path, 3).write_bytes(b"damaged")
    with pytest.raises(SystemExit, match="1"):
        checkpoints.main(["verify", str(tmp_path)])
    good, damaged = capsys.readouterr().out.splitlines()
    assert good.startswith("step_00000002.pt  0.0 MB, by 2 ranks")
    assert damaged.startswith("step_00000003.pt  its content is not what was written")
