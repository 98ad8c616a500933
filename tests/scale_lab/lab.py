"""Worlds of several sizes, what their ranks send, and what that comes to in larger worlds."""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from product import forkserver, programs, template
from product.test_programs import settings
from scipy.optimize import nnls

PHASES = ("preflight", "start-up", "step", "evaluation", "save", "resume", "failure")
FULL = 16_384
ANSWERS = programs.completed(
    {"model": "mlp", "amp": "off", "checkpoint": True, "compression": False}
)
ANSWERS = {**ANSWERS, "tools": ["preflight"]}


class World(NamedTuple):
    """What the ranks of a world counted: by phase and kind, a number of each rank."""

    ranks: int
    counts: Mapping[str, Mapping[str, Sequence[int]]]

    def most(self, phase: str, kind: str) -> int:
        """Of the rank that has most."""
        return max(self.counts[phase].get(kind, [0]))

    def others(self, phase: str, kind: str) -> int:
        """Of the rank that has most, but for the one that does something for all."""
        return sorted(self.counts[phase].get(kind, [0, 0]))[-2]

    def total(self, phase: str, kind: str) -> int:
        """Of all ranks."""
        return sum(self.counts[phase].get(kind, [0]))


def run(ranks: int, folder: Path, shared: Path, backend: str = "fake") -> World:
    """Train one world and count; raises AssertionError with what the ranks said if one fails."""
    template.write(ANSWERS, folder)
    (folder / "train.py").rename(folder / "train_as_written.py")
    shutil.copy(Path(__file__).with_name("rank.py"), folder / "train.py")
    overrides = [
        *settings(ANSWERS, shared),
        f"train.global_batch_size={ranks}",
        "log.every_steps=1",
    ]
    quick = ["checkpoint.every_steps=0", "data.validation=0.05", "train.epochs=1"]
    variables = {"LAB_BACKEND": backend}
    ended = forkserver.train(
        folder, ranks, [*overrides, *quick], variables, seconds=60 + 10 * ranks
    )
    assert ended.codes == [0] * ranks, ended.output[-4000:]
    found = [json.loads((folder / f"counts-{rank}.json").read_text()) for rank in range(ranks)]
    kinds = {kind for counts in found for values in counts.values() for kind in values}
    counts = {
        phase: {kind: [one.get(phase, {}).get(kind, 0) for one in found] for kind in kinds}
        for phase in found[0]
    }
    return World(ranks, counts)


def fit(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float, float]:
    """The a, b, c of a + b log2 N + c N that are nearest to the values, none below 0."""
    rows = [[1.0, math.log2(n), n] for n in sizes]
    solution, _ = nnls(np.array(rows), np.array(values, dtype=float))
    a, b, c = (float(x) for x in solution)
    return a, b, c


def at(coefficients: tuple[float, float, float], ranks: int) -> float:
    """The fitted value of a world."""
    a, b, c = coefficients
    return a + b * math.log2(ranks) + c * ranks
