"""Points of three rings in the plane."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "points"  # of the throughput
IGNORE = -100  # the class that does not count
RINGS = 3


class Batch(NamedTuple):
    inputs: Tensor  # [B, 2] float32
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    """What the model must know about the data."""

    classes: int


class Points(Dataset[Batch]):
    """Points in memory."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        return Batch(self.inputs[rows], self.targets[rows])


class Splits(NamedTuple):
    train: Points
    val: Points
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Draw the points, once per node."""
    path = prepared_path(cfg)
    if path.exists():
        return
    generator = torch.Generator().manual_seed(0)
    rings = torch.randint(RINGS, (cfg.points,), generator=generator)
    angles = torch.rand(cfg.points, generator=generator) * 2 * torch.pi
    radii = 1 + rings + 0.2 * torch.randn(cfg.points, generator=generator)
    inputs = torch.stack([radii * angles.cos(), radii * angles.sin()], 1)
    partial = path.with_suffix(".partial")
    torch.save({"inputs": inputs, "targets": rings}, partial)
    partial.replace(path)  # the file appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Open what was prepared: every third point is held out."""
    points = torch.load(prepared_path(cfg), weights_only=True)
    held_out = torch.arange(cfg.points) % 3 == 0
    train, val = (
        Points(points["inputs"][rows], points["targets"][rows]) for rows in (~held_out, held_out)
    )
    return Splits(train, val, Shape(classes=RINGS))


def prepared_path(cfg: config.Data) -> Path:
    """The file of prepared points."""
    return Path(cfg.folder) / f"rings-{cfg.points}.pt"
