"""Tables: numbers, texts and gaps of CSV and Parquet files, as tensors in memory."""

import hashlib
import math
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "samples"  # of the throughput
IGNORE = math.nan  # the target of a row that does not count: padding


class Batch(NamedTuple):
    numbers: Tensor  # [B, numbers] float32, in standard deviations from the mean
    categories: Tensor  # [B, categories] int64, each value of each column has a number; 0: unknown
    targets: Tensor  # [B] float32: a quantity as `numbers`, or the number of a class


@dataclass(frozen=True)
class Shape:
    """The facts about the data that the model needs."""

    numbers: int
    values: int  # of all categories together
    columns: dict[str, Any]  # what columns.py has learnt from them
    outputs: int  # 1 for a quantity, else the number of classes
    mean: float  # of a quantity, as the file has it
    unit: float  # its standard deviation
    labels: list[str]  # of the classes
    words: str
    content: str = ""  # digits that follow from the rows of both splits

    def __str__(self) -> str:
        return self.words

    @property
    def names(self) -> list[str]:
        """Columns, texts of categories and classes: the weights know them by their order.

        And the unit of each number, its mean and deviation: with others the weights mean others.
        With other rows, rows that were held out would be trained on.
        """
        texts: dict[str, list[str | None]] = self.columns["texts"]
        categories = [f"{name}={text}" for name, known in texts.items() for text in known]
        scales = {name: learnt[1:3] for name, learnt in self.columns["numbers"].items()}
        scales |= {"the target": [self.mean, self.unit]}
        units = [f"unit of {name}: {m:.6g} ± {d:.6g}" for name, (m, d) in scales.items()]
        known = [*self.columns["numbers"], *categories, *self.labels]
        return [*known, *units, f"values {self.content}"]


class Table(Dataset[Batch]):
    """Rows in memory. Indexed by a whole batch at a time, which spares a Python loop over rows."""

    def __init__(self, rows: Batch) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        chosen = torch.tensor(indices)
        return Batch(*(values[chosen] for values in self.rows))


class Splits(NamedTuple):
    train: Table
    val: Table
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return ~targets.isnan()


def prepare(cfg: config.Data) -> None:
    """Write the tables of both splits as tensors, once per node."""
    path = prepared_path(cfg)
    if path.exists():
        return
    import columns  # only needed here, where the data is prepared

    partial = path.with_suffix(".partial")
    torch.save(columns.encode(columns.read(cfg, _files(cfg)), cfg), partial)
    partial.replace(path)  # the file appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Map what was prepared into memory: the same rows and numbers on every rank."""
    table = torch.load(prepared_path(cfg), weights_only=True, mmap=True)
    train, val = (Table(Batch(*table[name])) for name in ("train", "val"))
    return Splits(train, val, Shape(**table["shape"]))


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tensors; another file, setting or program that reads has another."""
    stats = [(str(path), path.stat()) for path in _files(cfg)]
    versions = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    columns = (cfg.target, cfg.categories, cfg.leave_out, cfg.gaps, cfg.numbers, cfg.groups)
    chosen = (*columns, cfg.task, cfg.validation, cfg.split_seed)
    program = Path(__file__).with_name("columns.py").read_bytes()
    key = repr((program, version("pyarrow"), cfg.source, chosen, versions))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"table-{digest}.pt"


def _files(cfg: config.Data) -> list[Path]:
    """The files that the source names, in order; none for a bundled table."""
    source = Path(cfg.source)
    if source.is_file():  # whatever characters its name has
        return [source]
    start = Path(source.anchor)
    try:
        found = sorted(start.glob(str(source.relative_to(start))))
    except (IndexError, ValueError):  # no pattern that pathlib knows, such as an empty one
        found = []
    return [path for path in found if path.is_file()]
