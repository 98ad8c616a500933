"""The checkpoints of a run, listed, verified and exported."""

import json
import sys
from pathlib import Path

import pytest
import torch

import config
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
    """What is there, and the exit code of `verify`."""
    save(tmp_path, 2, best_step=2)
    save(tmp_path, 3).write_bytes(b"damaged")
    with pytest.raises(SystemExit, match="1"):
        checkpoints.main(["verify", str(tmp_path)])
    good, damaged = capsys.readouterr().out.splitlines()
    assert good.startswith("step_00000002.pt  0.0 MB, by 2 ranks")
    assert damaged.startswith("step_00000003.pt  its content is not what was written")


def test_export(tmp_path: Path) -> None:
    """The newest weights, in the library's format, where it is installed."""
    pytest.importorskip("safetensors")
    save(tmp_path, 2)
    output = tmp_path / "model.safetensors"
    checkpoints.main(["export", "--output", str(output), str(tmp_path)])
    content = output.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["weight"]["shape"] == [2, 2]
    assert header["__metadata__"]["step"] == "2"


def test_export_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 2)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(config.ConfigError, match="pip install safetensors"):
        checkpoints.main(["export", str(tmp_path)])
