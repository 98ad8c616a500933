"""New texts to predict for: files with the column of texts, the labels may be missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
import transformers

import config
import data
from tools import trained

KIND = "CSV, JSON lines or Parquet files"


def read(files: Sequence[Path], run: trained.Trained) -> tuple[data.Texts, Any]:
    """The texts as the model takes them, and the rows of the files."""
    cfg = run.cfg.data
    rows = [row for path in files for row in data.read_table(path, [cfg.text])]
    if not rows:
        raise config.ConfigError(f"{', '.join(map(str, files))}: there are no rows")
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.tokenizer_folder(run.shape))
    inputs = data.encode([str(row[cfg.text]) for row in rows], tokenizer, cfg.length)
    nothing = torch.full((len(rows),), data.IGNORE)
    return data.Texts(inputs, nothing), pa.Table.from_pylist(rows)
