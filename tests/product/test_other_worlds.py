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


def project(model: str, sharding: str, folder: Path, shared: Path) -> list[str]:
    """Write the project, in place of the one that is there; returns the overrides of its runs."""
    norm = {"batch_norm": "group"} if model in ("resnet", "custom") else {}
    options = {"accumulation": sharding == "zero1", "sharding": sharding}
    if sharding == "fsdp":  # from a whole file into shares
        options["saves"] = "shards"
    answers = completed({"model": model, **norm, **PLAIN, **options})
    template.write(answers, folder)
    several = ["train.micro_batch_size=1"] if sharding == "zero1" else []
    return [*settings(answers, shared), *several]


# Ranks and what they share out, before and after: from DDP to FSDP, and back.
CHANGES = [
    (2, "zero1", 1, "zero1"),
    (2, "off", 4, "fsdp"),
    (4, "hsdp", 3, "zero1"),
]


@pytest.mark.parametrize(("before", "shared_out", "after", "then"), CHANGES)
@pytest.mark.parametrize("model", MODELS)
def test_run_goes_on(
    model: str, before: int, shared_out: str, after: int, then: str, tmp_path: Path, shared: Path
) -> None:
    """The same samples in the same global batches: the losses say so, and the rates are equal."""
    whole = train(tmp_path, before, project(model, shared_out, tmp_path, shared))
    for file in (tmp_path / "runs" / "run" / "checkpoints").glob(f"step_{STEPS:08d}.*"):
        file.unlink()
    rows = train(tmp_path, after, project(model, then, tmp_path, shared))
    place = f"step_{STEPS - SAVE_EVERY:08d}.pt"
    assert f"continuing from {place}" in (tmp_path / "output.txt").read_text()
    assert column(rows, "step") == column(whole, "step")
    assert column(rows, "lr") == column(whole, "lr")
    for name in ("train_loss", "val_loss", "grad_norm"):
        for found, wanted in zip(column(rows, name), column(whole, name), strict=True):
            assert math.isclose(found, wanted, rel_tol=TOLERANCE["off"]), name
