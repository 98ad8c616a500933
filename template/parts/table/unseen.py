"""New rows to predict for: files with the columns of the training, the target may be missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import columns
import data
from tools import trained

KIND = "CSV or Parquet files"


def read(files: Sequence[Path], run: trained.Trained) -> tuple[data.Table, Any]:
    """The rows as the model takes them, and as the files have them."""
    table, whole = columns.read_new(files, run.shape.columns, run.cfg.data.gaps)
    nothing = torch.full((len(whole),), data.IGNORE)
    rows = data.Batch(*columns.apply(table, run.shape.columns), nothing)
    return data.Table(rows), whole
