"""Looks at tables of cells: which column could be predicted, and what `table` would refuse."""

import bz2
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from ddpgen.asking.column import Column, column_of, lack_names, text_and_label
from ddpgen.asking.found import ROWS, Found, labelled_texts, number
from ddpgen.errors import DdpgenError, show

FIRST = 2**16  # bytes of a text that are looked at
TARGETS = ("target", "label", "class", "y", "price", "outcome", "survived", "diagnosis")


def read(path: Path, source: str) -> Found | None:
    """The columns of a table, and what could be predicted; nothing where no row is.

    Raises:
        DdpgenError: `table` would refuse its first line.
    """
    with _open(path) as file:
        header = file.readline()
        file.seek(0)
        delimiter = max(",;\t|", key=header.count)
        csv.field_size_limit(sys.maxsize)  # a text may be a book
        reader = csv.reader(file, delimiter=delimiter)
        names = next(reader, [])
        found = [row for row in islice(reader, ROWS) if row]
        more = "more than " if next(reader, None) else ""
    rows = [row for row in found if len(row) == len(names)]
    if not rows:
        _refuse_header(path, names, found)
        return None
    columns = list(columns_of(names, rows))
    _refuse_names(path, columns)
    size = f"{more}{len(rows):,} rows, {len(names):,} columns"
    if (
        delimiter != "|"
        and path.suffix in (".csv", ".tsv")
        and (labelled := text_and_label(columns))
    ):
        return labelled_texts(size, *labelled, source)
    useful = [column for column in columns if not column.tells_rows_apart]
    if len(useful) < 2:  # the numbers of the rows may be all that there is to learn from
        useful = [column for column in columns if column in useful or column.counts_rows]
    useful = useful or columns
    named = {column.name.lower(): column for column in useful}
    possible = [column for column in useful if column.values > 1] or useful
    target = next((named[name] for name in TARGETS if name in named), possible[-1])
    words = [size, *(column.describe() for column in columns)]
    words.append(f"to predict: {target.name} -> {target.task()}")
    if target.values < 2:
        words.append(f"{target.name} is the same in all rows: nothing can be learnt")
    if target.gaps:
        words.append(f"leave out the rows without {target.name}: the program refuses them")
    arguments = [source, f"data.target={target.name}", f"data.task={target.task()}"]
    if left := [column.name for column in columns if column not in useful]:
        arguments.append(f"data.leave_out={json.dumps(left)}")
    if marks := sorted({column.mark for column in useful if column.mark}):
        arguments.append(f"data.gaps={json.dumps(marks)}")
    return Found(words, "rows", arguments)


def _refuse_header(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Refuse a table in which no row has as many cells as the first line has names."""
    if rows:
        raise DdpgenError(
            f"--data {show(str(path))}: the first line has {number(len(names), 'name')}, the row "
            f"below has {number(len(rows[0]), 'cell')}",
            remedy="begin the file with one line of names, and write one line for each row",
        )


def _refuse_names(path: Path, columns: list[Column]) -> None:
    """Refuse names that `table` would refuse."""
    names = [column.name for column in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DdpgenError(
            f"--data {show(str(path))}: two columns are called {show(twice)}",
            remedy="give each column a name of its own",
        )
    if lack_names(columns):
        raise DdpgenError(
            f"--data {show(str(path))}: the first row, {show(', '.join(names))}, is one of data",
            remedy="write the names of the columns above it",
        )


def columns_of(names: list[str], rows: list[list[str]]) -> Iterator[Column]:
    """The columns of rows that have a cell for each name."""
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        yield column_of(name, cells)


def has_tabs(path: Path) -> bool:
    """Whether a text is a table: each of its first lines has as many tabs."""
    with path.open("rb") as file:
        *lines, _ = [*file.read(FIRST).splitlines(), b""]
    counts = {line.count(b"\t") for line in lines}
    return len(counts) == 1 and counts != {0}


def _open(path: Path) -> TextIO:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        case ".bz2":
            return bz2.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
