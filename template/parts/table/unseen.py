"""New rows to predict for: files with the columns of the training, the target may be missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

import columns
import data
from engine import distributed
from tools import trained

KIND = "CSV or Parquet files"


def read(
    files: Sequence[Path], run: trained.Trained, process: distributed.Process
) -> tuple[data.Table, Any]:
    """The rows as the model takes them, and as the files have them."""
    table, whole = columns.read_new(files, run.shape.columns, run.cfg.data)
    numbers, categories = columns.apply(table, run.shape.columns)
    if process.is_main:
        for line in columns.doubts(table, run.shape.columns, categories):
            print(line)
    nothing = torch.full((len(whole),), data.IGNORE)
    return data.Table(data.Batch(numbers, categories, nothing)), whole


def held_out(run: trained.Trained) -> Any:
    """Arrow's table with the row of each sample that was held out, and its file among several."""
    path = data.prepared_path(run.cfg.data)
    places = torch.load(path, weights_only=True, mmap=True)["places"]
    table = columns.Table({}, [*map(Path, places["files"])], places["ends"])
    found = [table.find(row) for row in places["rows"].tolist()]
    files = {"file": [str(file) for file, _ in found]} if len(table.files) > 1 else {}
    return pa.table({**files, "row": [row for _, row in found]})
