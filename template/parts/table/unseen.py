"""New rows to predict for: files with the columns of the training, the target may be missing."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

import columns
import config
import data
from engine import distributed
from tools import trained

KIND = "CSV or Parquet files"
Learnt = dict[str, dict[str, Any]]  # what columns.py has learnt, by the kind and name of a column


def read(
    files: Sequence[Path], run: trained.Trained, process: distributed.Process
) -> tuple[data.Table, Any]:
    """The rows as the model takes them, and as the files have them."""
    learnt: Learnt = run.shape.columns
    parts = _read_parts(files, learnt, run.cfg.data)
    table = _choose(files, parts, learnt, run.cfg.data)
    numbers, categories = columns.apply(table, learnt)
    if process.is_main:
        for line in _doubts(table, learnt, categories):
            print(line)
    whole = _join_all(files, parts)
    nothing = torch.full((len(whole),), data.IGNORE)
    return data.Table(data.Batch(numbers, categories, nothing)), whole


def _read_parts(files: Sequence[Path], learnt: Learnt, cfg: config.Data) -> list[Any]:
    """Each file as Arrow's table. Raises ConfigError for a column that is missing, or is twice."""
    if absent := [path for path in files if not path.is_file()]:
        raise config.ConfigError(f"{absent[0]} cannot be read: there is no such file")
    parts = columns.read_files(files, cfg, learnt["texts"])
    for path, part in zip(files, parts, strict=True):
        for name in (*learnt["numbers"], *learnt["texts"]):
            if part.column_names.count(name) != 1:
                times = "two columns" if name in part.column_names else "no column"
                raise config.ConfigError(f"{path} has {times} {name!r}: the model needs one")
    return parts


def _choose(
    files: Sequence[Path], parts: list[Any], learnt: Learnt, cfg: config.Data
) -> columns.Table:
    """The columns that were learnt. Raises ConfigError for texts in place of numbers."""
    ends = list(accumulate(map(len, parts)))
    if not ends[-1]:
        raise config.ConfigError(f"{', '.join(map(str, files))}: there are no rows")
    numbers = {n: columns.join(n, parts, [*files], cfg.numbers) for n in learnt["numbers"]}
    empty = {name: a.cast(pa.float64()) for name, a in numbers.items() if a.null_count == len(a)}
    texts = {name: columns.join(name, parts, [*files], "") for name in learnt["texts"]}
    numbers |= empty  # in Parquet a column without a value may be one of texts
    table = columns.Table(numbers | texts, [*files], ends)
    for name, array in numbers.items():
        if array.type == pa.float64():
            table.refuse(pc.is_inf(array), name, ", and only finite numbers can be learnt from")
        else:
            is_text = pc.invert(pc.match_substring_regex(array, columns.NUMBER))
            table.refuse(is_text, name, ", but the model was trained with numbers")
            table.refuse(pc.is_valid(array), name, " as a text: give numbers")
    return table


def _doubts(table: columns.Table, learnt: Learnt, categories: Tensor) -> Iterator[str]:
    """Words about cells of new rows such as no row of the training had, column by column."""
    for name, numbers in zip(learnt["texts"], categories.T, strict=True):
        if len(unknown := (numbers == 0).nonzero().flatten().tolist()):
            cell = table.columns[name][unknown[0]].as_py()
            shown = "an empty cell" if cell is None else repr(cell)
            yield (
                f"column {name!r}: {len(unknown):,} of {len(numbers):,} cells are new to the model "
                f"and tell it nothing, such as {shown} ({table.place(unknown[0])})"
            )
    for name, (*_, has_gaps) in learnt["numbers"].items():
        empty = pc.is_null(table.columns[name], nan_is_null=True)
        if not has_gaps and (count := pc.sum(empty).as_py()):
            first = table.place(pc.index(empty, True).as_py())
            yield (
                f"column {name!r}: {count:,} of {len(empty):,} cells are empty, which none was in "
                f"the training: the median stands for them ({first})"
            )


def _join_all(files: Sequence[Path], parts: list[Any]) -> Any:
    """All columns of all files; a column with texts in any file is of texts in all."""
    whole = [_as_written(path, part) for path, part in zip(files, parts, strict=True)]
    if len(whole) == 1:
        return whole[0]
    fields = (field for part in whole for field in part.schema)
    texts = {field.name for field in fields if columns.holds_texts(field.type)}
    try:
        for number, part in enumerate(whole):
            own = [f.with_type(pa.string()) if f.name in texts else f for f in part.schema]
            whole[number] = part.cast(pa.schema(own))
        return pa.concat_tables(whole, promote_options="permissive")
    except pa.ArrowException as error:
        raise config.ConfigError(f"{files[0]} and the other files do not fit: {error}") from error


def _as_written(path: Path, part: Any) -> Any:
    """All columns of a file, those of CSV as texts: only a cell without a letter is empty."""
    if not columns.is_csv(path):
        return part
    for field in part.schema:
        if pa.types.is_binary(field.type):
            raise config.ConfigError(
                f"{path}: column {field.name!r} is not in UTF-8: save the file in UTF-8"
            )
    return columns.read_file(path, [""], dict.fromkeys(part.column_names, pa.string()))


def held_out(run: trained.Trained) -> Any:
    """Arrow's table with the row of each sample that was held out, and its file among several."""
    path = data.prepared_path(run.cfg.data)
    places = torch.load(path, weights_only=True, mmap=True)["places"]
    table = columns.Table({}, [*map(Path, places["files"])], places["ends"])
    found = [table.find(row) for row in places["rows"].tolist()]
    files = {"file": [str(file) for file, _ in found]} if len(table.files) > 1 else {}
    return pa.table({**files, "row": [row for _, row in found]})
