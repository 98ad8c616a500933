"""A run that goes on with another number of ranks, as if there had always been so many."""

import math
from pathlib import Path

import pytest

from product import template
from product.programs import completed
from product.test_programs import TOLERANCE, settings
from product.training import SAVE_EVERY, STEPS, column, train

# Nothing that each rank has its own of: statistics of a micro-batch, a scaler's search.
PLAIN = {"amp": "off", "checkpoint": True, "tracker": "none"}
MODELS = [choice.value for choice in template.QUESTIONS["model"].choices]


@pytest.mark.parametrize(("before", "after", "zero1"), [(2, 1, True), (2, 4, False), (4, 3, True)])
@pytest.mark.parametrize("model", MODELS)
def test_run_goes_on(
    model: str, before: int, after: int, zero1: bool, tmp_path: Path, shared: Path
) -> None:
    """The same samples in the same global batches: the losses say so, and the rates are equal."""
    norm = {"batch_norm": "group"} if model in ("resnet", "custom") else {}
    options = {"accumulation": zero1, "sharding": "zero1" if zero1 else "off"}
    answers = completed({"model": model, **norm, **PLAIN, **options})
    template.write(answers, tmp_path)
    overrides = settings(answers, shared)
    if zero1:
        overrides.append("train.micro_batch_size=1")
    whole = train(tmp_path, before, overrides)
    for file in (tmp_path / "runs" / "run" / "checkpoints").glob(f"step_{STEPS:08d}.*"):
        file.unlink()
    rows = train(tmp_path, after, overrides)
    place = f"step_{STEPS - SAVE_EVERY:08d}.pt"
    assert f"continuing from {place}" in (tmp_path / "output.txt").read_text()
    assert column(rows, "step") == column(whole, "step")
    assert column(rows, "lr") == column(whole, "lr")
    for name in ("train_loss", "val_loss", "grad_norm"):
        for found, wanted in zip(column(rows, name), column(whole, name), strict=True):
            assert math.isclose(found, wanted, rel_tol=TOLERANCE["off"]), name
