"""Chooses the checkpoint of a run that other programs take."""

import json
from pathlib import Path

import config
from engine import checkpoint


def folder_of(run: Path) -> Path:
    """A run's folder; raises ConfigError where there is none."""
    if not run.is_dir():
        raise config.ConfigError(f"{run} is no folder: give that of a run, such as runs/001")
    return run


def checkpoint_of(run: Path, newest: bool) -> Path:
    """The file of the best checkpoint by validation loss, or of the newest."""
    if not (found := checkpoint.newest_good(folder_of(run))):
        raise config.ConfigError(f"{run} has no checkpoints: train it first")
    path = Path(found)
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    best = checkpoint.path_of(run, manifest["best_step"])
    return path if newest or not best.exists() or checkpoint.problem(best) else best
