"""The checkpoints of a run, listed and verified."""

from pathlib import Path

import pytest
import torch

import config
from engine import checkpoint
from tools import checkpoints, export


def stand_in(run: Path, folder: Path, newest: bool) -> int:
    """An export of one file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f"of {run.name}, {newest}")
    return 3


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
    (faulty := save(tmp_path, 4)).unlink()
    faulty.symlink_to("/proc/self/mem")  # its first bytes cannot be read
    with pytest.raises(SystemExit, match="1"):
        checkpoints.main(["verify", str(tmp_path)])
    good, damaged, unread = capsys.readouterr().out.splitlines()
    assert good.startswith("step_00000002.pt  0.0 MB, by 2 ranks")
    assert damaged.startswith("step_00000003.pt  its content is not what was written")
    assert unread == "step_00000004.pt  cannot be read at the moment: Input/output error"


def test_export_leaves_other_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is written to when it is new, empty, or has an older export."""
    monkeypatch.setattr(export, "write", stand_in)
    (own := tmp_path / "own").mkdir()
    (own / "config.toml").write_text("mine")
    with pytest.raises(config.ConfigError, match=r"--output .*own: this export might replace"):
        checkpoints.main(["export", str(tmp_path / "run"), "--output", str(own)])
    assert (own / "config.toml").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new", "new"):
        checkpoints.main(["export", str(tmp_path / "run"), "--output", str(tmp_path / name)])
        assert (tmp_path / name / "EXPORT").read_text() == f"step 3 of {tmp_path / 'run'}\n"
    (tmp_path / "run" / "export").mkdir(parents=True)
    (tmp_path / "run" / "export" / "config.toml").write_text("of an older program")
    checkpoints.main(["export", str(tmp_path / "run")])
    assert (tmp_path / "run" / "export" / "config.toml").read_text() == "of run, False"
