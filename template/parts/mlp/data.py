"""Tables: a bundled set, or rows of a CSV or Parquet file, as tensors in memory."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import config

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of a row that does not count: padding


class Batch(NamedTuple):
    inputs: Tensor  # [B, features] float32
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    features: int
    classes: int
    names: list[str] = field(repr=False)  # of columns, classes and values: a run keeps to them


class Table(TensorDataset):
    """Rows in memory. Indexed by a whole batch at a time, which spares a Python loop over rows."""

    def __getitems__(self, indices: list[int]) -> Batch:
        return Batch(*self[indices])


class Splits(NamedTuple):
    train: Table
    val: Table
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Write the table as tensors, once per node; nothing is done where that has happened."""
    path = prepared_path(cfg)
    if path.exists():
        return
    names, *rows = _read_file(cfg) if Path(cfg.source).suffix else _read_bundled(cfg.source)
    digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in rows)).hexdigest()[:8]
    partial = path.with_suffix(".partial")
    torch.save(([*names, f"values {digest}"], *rows), partial)
    partial.replace(path)  # the file appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Read the prepared tensors and hold out a fraction, the same rows on every rank and run."""
    names, rows, targets = torch.load(prepared_path(cfg), weights_only=True)
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(cfg.split_seed))
    val, train = order.tensor_split([max(1, round(cfg.validation * len(order)))])
    deviation, mean = torch.std_mean(rows[train], 0)  # the validation rows stay unseen
    # A constant column stays unscaled: divided by nearly 0, validation rows would be huge.
    inputs = ((rows - mean) / deviation.where(deviation > 1e-12 * mean.abs(), 1.0)).float()
    return Splits(
        Table(inputs[train], targets[train]),
        Table(inputs[val], targets[val]),
        Shape(inputs.shape[1], int(targets.max()) + 1, names),
    )


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tensors; an edited file or program, or another target, has another."""
    source = Path(cfg.source)
    version = (source.stat().st_size, source.stat().st_mtime_ns) if source.is_file() else ()
    key = repr((cfg.source, cfg.target, version, Path(__file__).read_bytes()))  # and this program
    return Path(cfg.folder) / f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.pt"


def _read_bundled(name: str) -> tuple[list[str], Tensor, Tensor]:
    from sklearn import datasets  # only needed here, where the data is prepared

    if name not in ("digits", "wine", "breast_cancer"):
        raise config.ConfigError(f"data.source = {name!r}: use a file, digits, wine, breast_cancer")
    table = getattr(datasets, f"load_{name}")()
    names = [*map(str, table.feature_names), *map(str, table.target_names)]
    return names, torch.tensor(table.data), torch.tensor(table.target)


def _read_file(cfg: config.Data) -> tuple[list[str], Tensor, Tensor]:
    """Names of columns and classes, features [rows, columns] float64, classes [rows] int64."""
    from pyarrow import csv, parquet

    path = Path(cfg.source)
    if not path.is_file():
        raise config.ConfigError(f"data.source = {cfg.source!r}: there is no such file")
    try:
        file = parquet.read_table(path) if path.suffix.lower() == ".parquet" else csv.read_csv(path)
        names = file.column_names
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None):
            raise  # of the disk; Arrow's errors of a file have no number
        raise config.ConfigError(f"{path} cannot be read: {error}") from error
    if len({*names}) < len(names):
        raise config.ConfigError(f"{path}: two columns have the same name: {', '.join(names)}")
    if cfg.target not in names or len(names) < 2:
        raise config.ConfigError(f"data.target = {cfg.target!r}: choose of {names}, with features")
    classes, targets = _number_classes(cfg, file[cfg.target].to_pylist())
    names.remove(cfg.target)
    cells = [_numbers(path, name, file[name].to_pylist()) for name in names]
    return names + classes, torch.tensor(cells, dtype=torch.float64).T.contiguous(), targets


def _number_classes(cfg: config.Data, labels: list[Any]) -> tuple[list[str], Tensor]:
    """The classes in their sorted order, and each label as the number of its class."""
    if gaps := [n for n, x in enumerate(labels, 1) if x in (None, "") or type(x) in (list, dict)]:
        raise config.ConfigError(f"{cfg.source}: row {gaps[0]} has no target, a text or a number")
    distinct = set(labels)
    fractions = any(isinstance(label, float) and not label.is_integer() for label in distinct)
    many = len(distinct) > len(labels) / 2 and not isinstance(labels[0], str)
    if fractions or many or len(distinct) < 2:
        raise config.ConfigError(
            f"data.target = {cfg.target!r} has {len(distinct)} different values in {len(labels)} "
            "rows, which are no classes: a project with model=table predicts quantities"
        )
    classes = {label: number for number, label in enumerate(sorted(distinct))}
    return [*map(str, classes)], torch.tensor([classes[label] for label in labels])


def _numbers(path: Path, name: str, values: list[Any]) -> list[float]:
    """A column of features; ConfigError names the first cell that holds no finite number."""
    for row, value in enumerate(values, start=1):
        if not isinstance(value, int | float) or not abs(value) < 1e30:  # NaN is not less
            cell = "is empty" if value is None else f"is {value!r}"
            where = f"{path}: column {name!r} {cell} in row {row}"
            raise config.ConfigError(f"{where}: for texts and gaps use a project with model=table")
    return values
