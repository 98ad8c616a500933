"""New texts to predict for: files with the column of texts, the labels may be missing."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
import transformers

import config
import data
from engine import hub
from tools import trained

KIND = "CSV, JSON lines or Parquet files"


def read(files: Sequence[Path], run: trained.Trained) -> tuple[data.Texts, Any]:
    """The texts as the model takes them, and the rows of the files."""
    cfg = run.cfg.data
    if absent := [path for path in files if not path.is_file()]:
        raise config.ConfigError(f"{absent[0]}: there is no such file")
    rows = [row for path in files for row in data.read_table(path, [cfg.text])]
    if not rows:
        raise config.ConfigError(f"{', '.join(map(str, files))}: there are no rows")
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.tokenizer_folder(run.shape))
    inputs = data.encode([str(row[cfg.text]) for row in rows], tokenizer, cfg.length)
    if unknown := hub.unknown(inputs, tokenizer, run.shape.vocabulary):
        raise config.ConfigError(f"{', '.join(map(str, files))}: {unknown}")
    nothing = torch.full((len(rows),), data.IGNORE)
    return data.Texts(inputs, nothing), table_of(rows)


def table_of(rows: list[dict[str, Any]]) -> Any:
    """Arrow's table of the columns that any row has."""
    names = dict.fromkeys(chain.from_iterable(rows))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> Any:
    """Values of one type, or all as texts."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else _text(value) for value in values])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def flat(table: Any) -> Any:
    """The table without nested values, which CSV cannot have: they become JSON."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            values = [None if value is None else _text(value) for value in table[place].to_pylist()]
            table = table.set_column(place, field.name, pa.array(values))
    return table
