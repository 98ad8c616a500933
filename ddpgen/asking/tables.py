"""Looks at tables of cells: which column could be predicted, and what `table` would refuse."""

import bz2
import csv
import gzip
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from ddpgen.asking import foreign_lines, hints, image_tables, records, written
from ddpgen.asking.cells import LIMIT
from ddpgen.asking.column import FEWEST_ROWS, Column, column_of, lack_names
from ddpgen.asking.found import ROWS, Found, listed, number, option
from ddpgen.asking.texts import labelled_texts, text_and_label
from ddpgen.errors import DdpgenError, show

CELLS = 1_000_000  # of a table that are looked at, which takes some seconds
MOST_NAMED = 40  # columns that are described
TARGETS = ("target", "label", "class", "y", "price", "outcome", "survived", "diagnosis")


def read(path: Path, source: str) -> Found | None:
    """The columns of a table, and what could be predicted; nothing where no row is.

    Raises:
        DdpgenError: `table` would refuse its first line.
    """
    with _open(path) as file:
        header = file.readline()
        if header.lower().startswith("sep="):
            raise DdpgenError(
                f"--data {show(str(path))}: the first line, {show(header.strip())}, is for "
                "spreadsheets, and names no columns",
                remedy="delete this line",
            )
        file.seek(0)
        delimiter = max(",;\t|", key=header.count)
        csv.field_size_limit(sys.maxsize)  # a text may be a book
        reader = _cells(path, csv.reader(file, delimiter=delimiter, strict=True))
        names = next(reader, [])
        most = max(ROWS, CELLS // max(1, len(names)))
        found = [row for row in islice(reader, most) if row]
        more = "more than " if next(reader, None) else ""
    rows = [row for row in found if len(row) == len(names)]
    if not rows or 2 * len(rows) < len(found):
        _refuse_header(path, names, found)
        return None
    columns = [c for c in columns_of(names, rows) if c.name or c.cells]
    _refuse_names(path, columns, delimiter)
    image_tables.refuse(path, columns, delimiter)
    size = f"{more}{len(rows):,} rows, {len(columns):,} columns"
    if labelled := text_and_label(columns):
        _refuse_packed(path, delimiter)
        return labelled_texts(size, labelled, source)
    _refuse_strays(path, columns, [n for n, row in enumerate(found, 1) if len(row) == len(names)])
    useful = [column for column in columns if not column.tells_rows_apart]
    if len(useful) < 2:  # the numbers of the rows may be all that there is to learn from
        useful = [column for column in columns if column in useful or column.counts_rows]
    if len(useful) < 2 and len(rows) >= FEWEST_ROWS:
        _refuse_useless(path, [column.name for column in useful], columns, delimiter)
    useful = useful or columns
    named = {column.name.lower(): column for column in useful}
    possible = [column for column in useful if column.values > 1] or useful
    target = next((named[name] for name in TARGETS if name in named), possible[-1])
    words = [size, *_described(columns), *_refused_rows(names, found), *written.words(useful)]
    words += [doubt for column in useful for doubt in column.doubts()]
    words += ["the rows behind these were not looked at"] if more else []
    words += hints.about_split(columns, target)
    words += hints.about_target(target)
    words += hints.about_copies([names, *rows], useful, target)
    arguments = [source, option("data.target", target.name), f"data.task={target.task()}"]
    arguments += written.arguments(useful)
    if left := [column.name for column in columns if column not in useful]:
        arguments.append(f"data.leave_out={listed(left)}")
        words.append(f"left out, see data.leave_out: {', '.join(left[:MOST_NAMED])}")
    if codes := [column.name for column in useful if column.names_in_digits]:
        arguments.append(f"data.categories={listed(codes)}")
    if marks := sorted({mark for column in useful for mark in column.marks}):
        arguments.append(f"data.gaps={listed(marks)}")
    return Found(words, "rows", arguments)


def _described(columns: Sequence[Column]) -> list[str]:
    """The first columns in words, and how many more there are."""
    more = len(columns) - MOST_NAMED
    words = [column.describe() for column in columns[:MOST_NAMED]]
    return [*words, f"and {more:,} columns more"] if more > 0 else words


def _cells(path: Path, reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The rows of cells.

    Raises:
        DdpgenError: a quotation mark that ends no cell would take rows for one cell.
    """
    number = 0
    try:
        for row in reader:
            number += bool(row)  # empty lines are no rows
            yield row
    except csv.Error as error:
        raise DdpgenError(
            f"--data {show(str(path))}: row {number}: a cell begins with a quotation mark and does "
            "not end with one",
            remedy='write "" for a mark inside, and one more mark at either end (in pandas '
            "read_csv with quoting=3, then to_csv)",
        ) from error


def _refused_rows(names: list[str], rows: list[list[str]]) -> list[str]:
    """Words about rows for which the program refuses a table."""
    odd = [place for place, row in enumerate(rows, 1) if len(row) != len(names)]
    words = [f"the program wants {FEWEST_ROWS} rows or more"] if len(rows) < FEWEST_ROWS else []
    if odd:
        cells = number(len(rows[odd[0] - 1]), "cell")
        words.append(f"correct row {odd[0]}: it has {cells} for {len(names)} names")
    return words


def _refuse_strays(path: Path, columns: list[Column], numbers: list[int]) -> None:
    """Refuse a text among numbers that stands for no empty cell, by row and column."""
    for column in columns:
        if column.stray:
            place, cell = column.stray
            instead = "write a number in its place, such as half of the limit,"
            instead = instead if LIMIT.fullmatch(cell.strip()) else "correct the cell"
            raise DdpgenError(
                f"--data {show(str(path))}: row {numbers[place]}, column {show(column.name)}: "
                f"{show(cell)} among numbers",
                remedy=f"{instead} or remove the row; empty the cell where nothing is known, "
                "or leave the path out, and name the cell in data.gaps or the column in "
                "data.categories",
            )


def _refuse_useless(
    path: Path, useful: list[str], columns: Sequence[Column], delimiter: str
) -> None:
    """Refuse a table without a column to predict, or without a column to learn from."""
    whose = f"{useful[0]} alone could be learnt: all other" if useful else "all its"
    how = "add columns whose values come again, or numbers"
    prose = [column.name for column in columns if column.is_prose]
    if useful:
        how += "; for texts with labels: --data model=text-classifier"
    elif pair := records.pair_in([column.name for column in columns]):
        how = in_lines(path, prose, delimiter, named=(*pair, *records.beside(columns)))
    elif 0 < len(prose) < 3 and path.suffix.lower() not in (".gz", ".bz2"):
        how = in_lines(path, prose, delimiter)
    raise DdpgenError(
        f"--data {show(str(path))}: {whose} columns only tell the rows apart", remedy=how
    )


def in_lines(
    path: Path, prose: Sequence[str], delimiter: str = ",", named: Sequence[str] = ()
) -> str:
    """How to write texts, or questions and their answers, as lines of JSON, by their columns.

    Columns that are `named` are known as such, and keep their names.
    """
    target = f"{path.stem}-texts.jsonl"
    if named:
        lines = foreign_lines.of_columns(path, target, named, delimiter)
        how = f"write {', '.join(named)} with these lines of Python, then: --data {target}"
        return "\n  ".join([how, *lines])
    about = f"questions in {prose[0]}, answers in {prose[-1]} (or the other way round)"
    what = "texts to be continued" if len(prose) == 1 else about
    how = f"write {what} with these lines of Python, then: --data {target}"
    lines = foreign_lines.of_texts_in_columns(path, target, prose, delimiter)
    return "\n  ".join([how, *lines])


def _refuse_packed(path: Path, delimiter: str) -> None:
    """Refuse texts with labels in a file that `text-classifier` cannot read."""
    if delimiter == "|" or path.suffix.lower() in (".gz", ".bz2"):
        raise DdpgenError(
            f"--data {show(str(path))}: texts with labels are read from plain files with commas, "
            "semicolons or tabs",
            remedy="unpack the file, or write it with one of these between the columns",
        )


def _refuse_header(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Refuse a table in which most rows have more or fewer cells than the first line has names."""
    if names and not rows:
        raise DdpgenError(
            f"--data {show(str(path))}: {number(len(names), 'name')} of columns and no row",
            remedy="write the rows below the line of names",
        )
    if rows:
        others = Counter(len(row) for row in rows if len(row) != len(names))
        ((cells, _),) = others.most_common(1)
        raise DdpgenError(
            f"--data {show(str(path))}: the first line has {number(len(names), 'name')}, rows "
            f"below have {number(cells, 'cell')}",
            remedy="begin the file with one line of names, without remarks above it, and write one "
            "line for each row",
        )


def _refuse_names(path: Path, columns: list[Column], delimiter: str) -> None:
    """Refuse names that `table` would refuse."""
    names = [column.name for column in columns]
    if names.count("") > 1:
        raise DdpgenError(
            f"--data {show(str(path))}: the first line has {names.count('')} empty names",
            remedy="name each column in the first line, and delete lines above these names",
        )
    refuse_twice(path, names)
    if lack_names(columns):
        how = ["write the names of the columns above it"]
        if path.suffix.lower() not in (".gz", ".bz2"):
            how[0] += f", or have them counted by these lines of Python: --data named-{path.name}"
            how += foreign_lines.of_names(path, delimiter, len(names))
        raise DdpgenError(
            f"--data {show(str(path))}: the first row, {show(', '.join(names))}, is one of data",
            remedy="\n  ".join(how),
        )


def refuse_twice(path: Path, names: Sequence[str]) -> None:
    """Refuse a name of two columns, in text or in Parquet."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DdpgenError(
            f"--data {show(str(path))}: two columns are called {show(twice)}",
            remedy="give each column a name of its own",
        )


def columns_of(names: list[str], rows: list[list[str]]) -> Iterator[Column]:
    """The columns of rows that have a cell for each name."""
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        yield column_of(name, cells)


def _open(path: Path) -> TextIO:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        case ".bz2":
            return bz2.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
