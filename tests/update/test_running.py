"""A run that began before an update goes on after it, to the same bits as without the update."""

import ast
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from product import forkserver

from ddpgen.asking.question import Answers
from ddpgen.updating import update
from update.lab import Lab

RELEASES = ("v0.2.0", "v0.3.0", "v0.4.0", "v0.5.0")  # checkpoints of 0.1.0 said less
PROJECTS: dict[str, Answers] = {
    "plain": {},
    "most": {
        "accumulation": True,
        "amp": "bf16",
        "optimizer_sharding": "zero1",  # its name in all releases so far
        "clusters": ["local", "slurm"],
    },
    "gpt": {"model": "gpt"},
    "resnet": {"model": "resnet"},
}
ROUNDED = "resnet"  # since 0.5.0 images are rounded to bytes: the same tensors, other values
# Little to evaluate after each epoch.
SMALL = {
    "gpt": [
        f"data.source={ast.__file__}",
        "data.windows_per_epoch=48",
        "model.width=32",
        "model.layers=2",
    ],
    "resnet": ["data.validation=0.05"],
}
ARGUMENTS = (
    "train.max_steps=12",
    "optim.warmup_steps=2",  # at most a fifth of the run, which is a newer rule
    "checkpoint.every_steps=6",
    "checkpoint.keep=9",
)
LAST = "step_00000012"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.getoption("--updates") == "all":
        cases = list(itertools.product(RELEASES, PROJECTS))
    else:
        cases = list(zip(itertools.cycle(RELEASES), PROJECTS, strict=False))
    metafunc.parametrize(("tag", "project"), cases)


def test_run_goes_on_after_an_update(lab: Lab, tmp_path: Path, tag: str, project: str) -> None:
    """From its checkpoint, and anew from its saved config."""
    old = lab.project(tmp_path / "old", tag, PROJECTS[project])
    lab.commit(old)
    arguments = [*ARGUMENTS, *SMALL.get(project, [])]
    train(old, "run.name=run", *arguments)
    run = old / "runs/run"
    expected = tensors(run / f"checkpoints/{LAST}.pt")
    for path in run.glob(f"checkpoints/{LAST}*"):
        path.unlink()
    shutil.copy(run / "config.toml", tmp_path / "saved.toml")
    assert update.update(old, None, [], dry_run=False) == 0
    train(old, "run.name=run", *arguments)
    rounds = project == ROUNDED and tag < "v0.5.0"
    same = shape if rounds else torch.equal
    assert differences(tensors(run / f"checkpoints/{LAST}.pt"), expected, same) == []
    train(old, "--config", str(tmp_path / "saved.toml"), "run.name=anew")
    assert differences(tensors(old / f"runs/anew/checkpoints/{LAST}.pt"), expected, same) == []


def train(project: Path, *arguments: str) -> None:
    """Train on two processes."""
    run = forkserver.train(project, 2, arguments)
    assert run.codes == [0, 0], run.output
    (project / "output.txt").unlink()  # which an update would ask to commit


def tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint that training goes on from: weights, moments, averages."""
    return dict(_tensors(torch.load(path, weights_only=True), ""))


def _tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key in value:
            yield from _tensors(value[key], f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{name}.{number}")


def differences(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], same: Callable[..., bool]
) -> list[str]:
    """Names of tensors that one side lacks, or that are not the same."""
    assert expected
    names = found.keys() | expected.keys()
    both = found.keys() & expected.keys()
    return sorted(n for n in names if n not in both or not same(found[n], expected[n]))


def shape(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return found.shape == expected.shape
