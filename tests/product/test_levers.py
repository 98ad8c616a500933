"""The levers of communication: the result is the same, or within the error that is stated.

Of the section ddp: bucket_mb, gradient_as_bucket_view, static_graph and compress, in programs in
which they meet what could break them: micro-batches that are not reduced, float16's skipped steps,
the sharded optimizer, buckets that no pass has settled.
"""

import shutil
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import forkserver, template
from product.combinations import identifier
from product.programs import completed
from product.test_programs import settings
from product.training import STEPS, check_history, column, stop_and_resume, train

TOOLS = ["preflight", "memory", "scaling", "profile", "predict", "checkpoints"]
PLAIN: Answers = {
    "model": "mlp",
    "amp": "off",
    "checkpoint": True,
    "compression": True,
    "tools": TOOLS,
}
ALL: Answers = {
    "model": "gpt",
    "amp": "fp16",
    "accumulation": True,
    "activation_checkpointing": True,
    "checkpoint": True,
    "saves": "background",
    "sharding": "zero1",
    "compression": True,
    "tools": TOOLS,
    "watch": ["spikes", "ranks", "speed"],
}
BRIEF: Answers = {
    "model": "resnet",
    "amp": "off",
    "accumulation": True,
    "checkpoint": False,
    "compression": True,
    "tools": ["preflight", "memory", "scaling", "profile"],
    "watch": ["spikes", "ranks", "speed"],
}

EXACT = ["ddp.bucket_mb=1", "ddp.gradient_as_bucket_view=false"]
STATIC = "ddp.static_graph=true"  # not there with accumulation: see decision 0013
# How far the loss may be away after six steps, relative.
CLOSE = {"bf16": 1e-2, "fp16": 2e-3, "powersgd": 0.3}
POWERSGD = ["ddp.powersgd_after=2", "ddp.powersgd_rank=1"]


@pytest.mark.parametrize("compress", ["none", "bf16", "fp16", "powersgd"])
def test_gradients_arrive(compress: str, tmp_path: Path) -> None:
    """Element by element, over two and three ranks: the bound that compression.py states."""
    template.write(completed(PLAIN), tmp_path)
    shutil.copy(Path(__file__).with_name("reduced.py"), tmp_path / "train.py")
    overrides = [f"ddp.compress={compress}", "ddp.powersgd_after=2", "ddp.timeout_seconds=60"]
    for ranks in (2, 3):
        run = forkserver.train(tmp_path, ranks, overrides)
        assert run.codes == [0] * ranks, run.output[-3000:]


@pytest.mark.parametrize("chosen", [PLAIN, ALL, BRIEF], ids=["plain", "all", "brief"])
def test_training_with_levers(chosen: Answers, tmp_path: Path) -> None:
    """Losses equal those without levers, bit for bit or nearly; resumed runs are as whole ones."""
    answers = completed(chosen)
    template.write(answers, tmp_path)
    overrides = settings(answers, tmp_path / "data")
    (tmp_path / "data").mkdir()
    rows = train(tmp_path, 2, overrides)
    exact = EXACT if answers["accumulation"] else [*EXACT, STATIC]
    assert train(tmp_path, 2, [*overrides, *exact], "exact") == rows
    for compress, tolerance in CLOSE.items():
        levers = [*overrides, *POWERSGD, f"ddp.compress={compress}"]
        found = train(tmp_path, 2, levers, compress)
        check_history(found)
        assert found != rows, f"{compress} does nothing in {identifier(answers)}"
        assert column(found, "val_loss") == pytest.approx(column(rows, "val_loss"), rel=tolerance)


def test_resume_is_bit_for_bit_the_same(tmp_path: Path) -> None:
    """What PowerSGD remembers is dropped at each checkpoint, by the run that goes on as well."""
    answers = completed(PLAIN)
    template.write(answers, tmp_path)
    (tmp_path / "data").mkdir()
    levers = [*POWERSGD, "ddp.compress=powersgd", STATIC]
    overrides = [*settings(answers, tmp_path / "data"), *levers, f"train.max_steps={STEPS}"]
    stop_and_resume(tmp_path, 2, overrides, train(tmp_path, 2, overrides))


def test_mistakes_are_named(tmp_path: Path) -> None:
    template.write(completed(PLAIN), tmp_path)
    for override, sentence in [
        ("ddp.compress=int8", 'choose one of "none", "bf16", "fp16", "powersgd"'),
        ("ddp.powersgd_after=1", "ddp.powersgd_after = 1 must be above 1"),
        ("ddp.powersgd_rank=0", "ddp.powersgd_rank = 0 must be at least 1"),
    ]:
        run = forkserver.train(tmp_path, 1, [override])
        assert (run.codes, sentence in run.output) == ([2], True), run.output
