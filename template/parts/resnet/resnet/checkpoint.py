"""Checkpoints: one writer, whole files only, and the newest good one on resume."""

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, NoReturn

import torch
import torch.distributed as dist

import config
import distributed
import state

CHECKPOINTS = "checkpoints"  # in the run's folder
REQUEUE = "REQUEUE"  # launch files look for this file: run the job again
EXIT_REQUEUE = 75  # EX_TEMPFAIL of sysexits.h


class StopRequest:
    """Remembers that a scheduler asked this process to stop.

    The handler only sets a flag: it may run in the middle of anything. The ranks agree on it at
    the next optimizer step, since a rank that stopped alone would leave the others waiting.
    """

    def __init__(self) -> None:
        self.received = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        return self.received

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True


def save(folder: Path, now: state.TrainState, keep: int, ranks: distributed.Ranks) -> None:
    """Write a checkpoint of the current step. Every rank must call it; rank 0 alone writes.

    All ranks wait until it is on disk. Where that fails, all raise ConfigError, and the earlier
    checkpoints are as they were.
    """
    distributed.share_buffers(now.model)
    snapshot = now.snapshot()

    def write() -> str:
        _write_checkpoint(folder / CHECKPOINTS, now.step, snapshot)
        _rotate(folder / CHECKPOINTS, keep, now.best_step)
        return ""

    distributed.on_main(ranks, write)


def resume(folder: Path, now: state.TrainState, ranks: distributed.Ranks) -> str:
    """Continue from the newest good checkpoint, if there is one; returns its name or ''.

    Rank 0 chooses and says which files it passed over; all ranks load the same one.
    """

    def choose() -> str:
        (folder / REQUEUE).unlink(missing_ok=True)  # this is the job that it asked for
        return _newest_good(folder / CHECKPOINTS)

    name = distributed.on_main(ranks, choose)
    if name:
        snapshot = torch.load(folder / CHECKPOINTS / name, map_location="cpu", weights_only=True)
        now.restore(snapshot, ranks.is_main)
    return name


def due(step: int, cfg: config.Checkpoint) -> bool:
    """Whether the interval asks for a checkpoint after this step."""
    return cfg.every_steps > 0 and step % cfg.every_steps == 0


def leave_for_requeue(folder: Path, step: int, ranks: distributed.Ranks) -> NoReturn:
    """Leave the marker that launch files look for, and end with an exit code that says the same."""

    def mark() -> str:
        (folder / REQUEUE).write_text(f"stopped after step {step}\n")
        print(f"asked to stop: saved step {step}, to be continued", flush=True)
        return ""

    distributed.on_main(ranks, mark)
    raise SystemExit(EXIT_REQUEUE)


def _write_checkpoint(folder: Path, step: int, snapshot: dict[str, Any]) -> None:
    """The file first, then its manifest: what has no manifest was never finished."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step_{step:08d}.pt"
    _write(path, lambda file: torch.save(snapshot, file))
    manifest = {
        "step": step,
        "world_size": dist.get_world_size(),
        "torch": torch.__version__,
        "sha256": _digest(path),
    }
    text = json.dumps(manifest, indent=2) + "\n"
    _write(path.with_suffix(".json"), lambda file: file.write(text.encode()))


def _write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Create or replace a file so that after a crash it is there whole, or as it was before."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name, too, must survive a power cut
    os.close(folder)


def _rotate(folder: Path, keep: int, best_step: int) -> None:
    """Delete what is neither among the newest `keep` nor the best."""
    manifests = sorted(folder.glob("step_*.json"))
    for manifest in manifests[:-keep]:
        if manifest.stem != f"step_{best_step:08d}":
            manifest.unlink()  # first, so that no manifest promises a file that is gone
            manifest.with_suffix(".pt").unlink(missing_ok=True)


def _newest_good(folder: Path) -> str:
    """The name of the newest checkpoint whose content is what was written."""
    for manifest in sorted(folder.glob("step_*.json"), reverse=True):
        path = manifest.with_suffix(".pt")
        try:
            intact = json.loads(manifest.read_text())["sha256"] == _digest(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"passed over {path}: {error}")
            continue
        if intact:
            return path.name
        print(f"passed over {path}: its content is not what was written")
    return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
