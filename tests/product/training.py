"""A program's training, and what it has to show: needs torch only, so that it runs anywhere."""

import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.utils._pytree import tree_map

from product import forkserver

STEPS = 6
SAVE_EVERY = 2
# Without its list of all packages that are installed here.
WANDB = {"WANDB_MODE": "offline", "WANDB_X_SAVE_REQUIREMENTS": "false"}
# Columns that differ from run to run.
SPEED = re.compile("memory_gib|.*_per_(second|rank)|.*_ms|slow.*|mfu|time|run_seconds|goodput")

History = list[dict[str, float]]
Starter = Callable[..., forkserver.Run]  # forkserver.train, or what does the same in another way


def train(
    project: Path,
    ranks: int,
    overrides: list[str],
    folder: str = "runs",
    start: Starter = forkserver.train,
) -> History:
    """Run a project's train.py to its end; returns the rows of its history.

    Raises AssertionError, with what was said, unless all ranks end well.
    """
    overrides = [*overrides, f"run.folder={folder}"]
    run = start(project, ranks, overrides, WANDB)
    again = f"cd {project} && python train.py --processes={ranks} {' '.join(overrides)}"
    assert run.codes == [0] * ranks, f"exit codes {run.codes}: {again}\n{run.output[-3000:]}"
    rows = map(json.loads, (project / folder / "run" / "metrics.jsonl").read_text().splitlines())
    rows = ({name: v for name, v in row.items() if not SPEED.fullmatch(name)} for row in rows)
    return [row for row in rows if row.keys() != {"step"}]


def column(rows: History, name: str) -> list[float]:
    """The values of one column, in the rows that have it."""
    return [row[name] for row in rows if name in row]


def check_history(rows: History) -> None:
    """Each step is there once, with finite losses; a float16 scaler begins high, and searches."""
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6, 6]
    assert all(math.isfinite(loss) for loss in column(rows, "train_loss"))
    assert len(column(rows, "val_loss")) == 1
    assert column(rows, "skipped")[-1] < STEPS


def compare(rows: History, expected: History, tolerance: float, of_norms: float = 0.0) -> None:
    """Equal losses, until the two scalers of float16 skip different steps on their search.

    A step's loss is taken before its update, so that it is comparable if all updates before are.
    Norms are compared by the same tolerance, or by one of their own.
    """
    ours, theirs = column(rows, "skipped"), column(expected, "skipped")
    same = next((n for n in range(STEPS) if ours[n] != theirs[n]), STEPS)
    for name, until in (("train_loss", same + 1), ("grad_norm", same), ("val_loss", same // STEPS)):
        pairs = zip(column(rows, name)[:until], column(expected, name)[:until], strict=True)
        for found, wanted in pairs:
            # A step that was skipped has no finite norm.
            allowed = of_norms or tolerance if name == "grad_norm" else tolerance
            near = math.isclose(found, wanted, rel_tol=allowed, abs_tol=1e-12)
            assert near or not (math.isfinite(found) or math.isfinite(wanted)), (
                f"{name} is {found}, not {wanted}"
            )


def stop_and_resume(
    project: Path,
    ranks: int,
    overrides: list[str],
    rows: History,
    start: Starter = forkserver.train,
) -> None:
    """Lose all after step 4, as in a crash; the resumed run ends bit for bit as the whole one."""
    checkpoints = project / "runs" / "run" / "checkpoints"
    last, before = (checkpoints / f"step_{step:08d}.pt" for step in (STEPS, STEPS - SAVE_EVERY))
    written = content(last)
    if last.is_dir():
        shutil.rmtree(last)
    else:
        last.unlink()
    last.with_suffix(".json").unlink()
    found = train(project, ranks, overrides, start=start)
    assert found == rows, [pair for pair in zip(found, rows, strict=False) if pair[0] != pair[1]]
    assert f"continuing from {before.name}" in (project / "output.txt").read_text()
    assert same(content(last), written), "other bits than without a stop"


def content(checkpoint: Path) -> Any:
    """What a checkpoint holds; of a folder what PyTorch's own reader finds, and the rest."""
    if not checkpoint.is_dir():
        return torch.load(checkpoint, weights_only=True)
    with tempfile.NamedTemporaryFile() as file:
        dcp_to_torch_save(checkpoint, file.name)
        shares = torch.load(file.name, weights_only=True)
    rest = torch.load(checkpoint / "rest.pt", weights_only=True)
    return shares, tree_map(lambda x: x.shape if getattr(x, "is_meta", False) else x, rest)


def same(one: Any, other: Any) -> bool:
    """Whether two nested contents are bit for bit the same."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)
