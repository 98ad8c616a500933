"""Reads tables with Arrow, and turns their columns into numbers.

Everything that is learnt from the rows, such as means and known texts, is learnt from the rows of
the training split: the others must stay unseen.
"""

import csv as python_csv
import hashlib
import io
import os
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import torch
from pyarrow import csv, parquet
from torch import Tensor

import config

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
# Not as 1234.5: a comma as decimal point, or marks between thousands, as in 83,7 and 1,234.50 and
# 1.234,50; or with a sign, as in $12 and 7.5 %; or below zero with a dash, or in parentheses.
_SIGN = "(?:[$€£¥₹%]|USD|EUR|GBP|CHF|JPY|CNY|INR)"
_WITH_COMMAS = (
    r"(\d*,\d+([eE][-+]?\d+)?|\d{1,3}([,.'\x{2019}\x{202f}\x{a0} ]\d{3})+([.,]\d+)?"
    r"|\d{1,2}(,\d{2})+,\d{3}([.]\d+)?)"
)
_BELOW = r"[-+\x{2212}\x{2013}]"
_PLAIN = r"\d*\.?\d+"
MARKED = (
    rf"^\s*{_BELOW}?({_SIGN}?\s?{_BELOW}?{_WITH_COMMAS}\s?{_SIGN}?|{_SIGN}\s?{_BELOW}?{_PLAIN}"
    rf"|{_PLAIN}\s?{_SIGN}|\({_SIGN}?\s?({_PLAIN}|{_WITH_COMMAS})\s?{_SIGN}?\))\s*$"
    rf"|^\s*[\x{{2212}}\x{{2013}}]{_PLAIN}\s*$|^\s*{_PLAIN}-\s*$"
)
# The same by data.numbers, which says what stands between thousands, and what before decimals.
_DIGITS = r"(?P<whole>[1-9]\d{0,2}(?:MARK\d{2,3})*MARK\d{3}|\d*)(?:BEFORE(?P<rest>\d*))?"
_WRITTEN = (
    rf"^\s*(?:[(]|{_BELOW}?)\s?{_SIGN}?\s?{_BELOW}?{_DIGITS}(?P<power>(?:[eE][-+]?\d+)?)"
    rf"\s?{_SIGN}?\s?[-)]?\s*$"
)
_MARKS = r"'\x{2019}\x{202f}\x{a0} ]"
WRITTEN = {
    "1,234.5": _WRITTEN.replace("MARK", f"[,{_MARKS}").replace("BEFORE", "[.]"),
    "1.234,5": _WRITTEN.replace("MARK", f"[.{_MARKS}").replace("BEFORE", ","),
}
POINT = {"plain": ".", "1,234.5": ".", "1.234,5": ","}  # before decimals, by data.numbers
IS_BELOW_ZERO = r"^[^\d.,]*[-(\x{2212}\x{2013}]|-\s*$"
POINTS = r"^\s*[-+]?[1-9]\d{0,2}[.]\d{3}\s*$"  # perhaps between thousands
LIMIT = r"^\s*[<>\x{2264}\x{2265}]\s?=?\s?(\d+\.?\d*|\.\d+)\s*$"  # <0.84, of what was measured
CUT = r"^\s*[-+]?\d([.,]\d+)?E\+\d\d\s*$"  # 1.23E+15, what spreadsheets make of long numbers
HUNDREDS = r"^\s*[-+]?\d{1,3}\s*$"
WHOLE = r"^[-+]?\d{1,76}$"
EXACT = 2**53  # from here on, floats of 64 bits have no place for each whole number
BOOL = r"(?i)^(true|false)$"
UNIT = r"^\s*[-+]?(?:\d+\.?\d*|\.\d+) ?(?P<unit>[A-Za-z°µΩ]\S{0,7})\s*$"  # 9.5 l/km
# Days, months and times as people write them: 31.12.2019, 12/31/19 10:30, Jan 5, 2020, 2020-05.
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[.]?"
_DAY = (
    r"(\d{1,2}[./-]\d{1,2}[./-](\d\d|\d{4})|\d{4}[./-]\d{1,2}[./-]\d{1,2}"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}"
    rf"|\d{{4}}[./-](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])[/-]\d{{4}}|{_MONTH}[ -]\d{{2,4}}"
    r"|\d{4}[ -]?(Q[1-4]|W\d\d)|Q[1-4][ -]\d{4})"
)
_TIME = r"\d{1,2}:\d\d(:\d\d([.]\d+)?)?( ?[ap][.]?m[.]?)?"
_ZONE = r"( ?(Z|UTC|[-+]\d\d:?\d\d))?"
DATE = rf"(?i)^\s*({_DAY}(,?[ T]{_TIME}{_ZONE})?|{_TIME})\s*$"
# Arrow's words for a row with too many or too few cells, which it counts from the header on.
ODD_ROW = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")
# What pandas calls the index of rows: in CSV, read again from CSV, in Parquet.
INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
BLANKS = [" " * number for number in range(1, 9)]  # cells that are as good as empty
DELIMITERS = (b",", b";", b"\t", b"|")
PARQUET = b"PAR1"  # the begin of such a file
FIRST = 2**16  # bytes of a file, in which its header ends
UTF_16 = "the file is in UTF-16: save the file in UTF-8"
NO_TABLES = {  # by the first bytes of a file
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"sep=": "the first line is for spreadsheets, and names no columns: delete the line",
    b"\x1f\x8b": "the file is compressed by gzip: let its name end with .gz, in small letters",
    b"BZh91AY&SY": "the file is compressed by bzip2: let its name end with .bz2",
    b"\x28\xb5\x2f\xfd": "the file is compressed by Zstandard: let its name end with .zst",
    b"\xfd7zXZ": "the file is compressed by xz: unpack the file",
    b"PK\x03\x04": "the file is a zip archive or a spreadsheet: save the table as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "the file is a spreadsheet: save the table as CSV in UTF-8",
    b'{"': "the file holds JSON: save the table as CSV",
    b"[{": "the file holds JSON: save the table as CSV",
    b"<!DOCTYPE": "the file is a web page, such as of a login: download the table itself",
    b"<html": "the file is a web page, such as of a login: download the table itself",
    b"version https://git-lfs": "the file only says where the table is: git lfs pull fetches it",
}
VALIDATION = {"val", "valid", "validation", "dev"}  # in the name of a file or folder held out
TRAINING, TEST = {"train", "training"}, {"test", "testing"}  # beside train, test is left out
FEWEST_ROWS = 10
LONG = 1e11  # from here on, spreadsheets write numbers as 1.23E+15
FAR = ", too far from the other rows for a float of 32 bits: correct the cell"
TOTALS = {"total", "grand total", "sum", "summe", "gesamt"}
FEW_VALUES = 20  # up to this number of whole numbers, they may be classes or quantities


class Table(NamedTuple):
    """The rows of all files, one file below the other."""

    columns: dict[str, Any]  # Arrow's arrays of numbers or texts
    files: list[Path]
    ends: list[int]  # of each file, in rows
    words: Any = None  # the cells of the target as texts
    groups: Any = None  # the cells by which rows are held out together, as texts
    doubts: str = ""  # words about numbers that may mean others
    held_out: Sequence[Path] = ()  # files of which all rows are for validation
    left_out: Sequence[Path] = ()  # files of tests

    def place(self, row: int) -> str:
        """File and row in words."""
        file, number = self.find(row)
        return f"{file}, row {number}"

    def find(self, row: int) -> tuple[Path, int]:
        """File and row as people count them: from 1, below the header."""
        number = bisect_right(self.ends, row)
        begin = self.ends[number - 1] if number else 0
        return self.files[number], row - begin + 1

    def refuse(self, wrong: Any, name: str, reason: str) -> None:
        """Raise ConfigError for the first row for which `wrong`, an array of bools, is true."""
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            cell = self.columns[name][row].as_py()
            shown = "is empty" if cell is None else f"is {cell!r}"
            raise config.ConfigError(f"{self.place(row)}: column {name!r} {shown}{reason}")


# --- Reading ---


def read(cfg: config.Data, files: list[Path]) -> Table:
    """All files, or a bundled table; raises ConfigError with file, row or column of a mistake."""
    groups = [cfg.groups] if cfg.groups else []
    texts = [*cfg.categories, *groups]
    held_out, left_out = _by_name(files)
    files = [path for path in files if path not in left_out]
    parts = read_files(files, cfg, texts) or [_read_bundled(cfg.source)]
    files = files or [Path(cfg.source)]
    names = parts[0].column_names
    for path, part in zip(files, parts, strict=True):
        _compare_names(files[0], names, path, part.column_names)
    _check_names(cfg, names)
    _check_header(files[0], parts[0])
    ends = list(accumulate(map(len, parts)))
    if ends[-1] < FEWEST_ROWS:
        raise config.ConfigError(
            f"data.source = {cfg.source!r} has only {ends[-1]} rows: {FEWEST_ROWS} are needed"
        )
    chosen = [name for name in names if name not in (*cfg.leave_out, *groups)]
    doubts = ""
    for name in chosen:
        if name not in cfg.categories:
            for path, part in zip(files, parts, strict=True):
                _check_digits(_digits(part[name], name, path, cfg), name, path)
                doubts += _check_points(part[name], name, path, cfg)
    kinds = {name: "" if name in cfg.categories else cfg.numbers for name in chosen}
    columns = {name: join(name, parts, files, kinds[name]) for name in chosen}
    words = [_words(cfg, path, part) for path, part in zip(files, parts, strict=True)]
    together = next((join(name, parts, files, "") for name in groups), None)
    cells = pa.chunked_array([*chain(*words)], type=pa.string())
    cells = _of_one_spelling(cells, columns[cfg.target])
    return Table(columns, files, ends, cells, together, doubts, held_out, left_out)


def _by_name(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files called val, where there are others; those called test, where any is called train.

    The words are those of part_val_01.csv, or of val/01.csv below the folder that holds all files.
    """
    base = os.path.commonpath([path.parent for path in files]) if files else ""
    names = {path: str(path.relative_to(base)).lower() for path in files}
    words = {path: {*re.split(r"[^a-z]+", name)} for path, name in names.items()}
    train = [path for path in files if words[path] & TRAINING]
    tests = [path for path in files if train and words[path] & TEST and path not in train]
    val = [path for path in files if words[path] & VALIDATION and path not in [*train, *tests]]
    return (val if len(val) + len(tests) < len(files) else []), tests


def read_files(files: Sequence[Path], cfg: config.Data, texts: Iterable[str]) -> list[Any]:
    """Each file as Arrow's table; `texts`, and a column with texts in any file, are texts in all.

    Of CSV, Arrow guesses types by the cells of one file: there 007 would become 7.
    """
    empty, point = _empty(cfg.gaps), POINT[cfg.numbers]
    parts = [read_file(path, empty, point=point) for path in files]
    names = {*texts, *(f.name for part in parts for f in part.schema if holds_texts(f.type))}
    return [_read_as(path, part, empty, names) for path, part in zip(files, parts, strict=True)]


def _read_as(path: Path, part: Any, empty: list[str], names: Iterable[str]) -> Any:
    """The part of a file, with the cells of some columns of CSV as they stand."""
    kinds = {
        field.name: pa.string()
        for field in part.schema
        if field.name in names and not holds_texts(field.type)
        if not pa.types.is_binary(field.type)  # in another encoding than UTF-8
    }
    return read_file(path, empty, kinds) if kinds and is_csv(path) else part


def _words(cfg: config.Data, path: Path, part: Any) -> Any:
    """Chunks of the target's cells as texts: classes have the names that the file has for them."""
    array, kind = part[cfg.target], pa.string()
    if not holds_texts(array.type) and is_csv(path):
        cells = read_file(path, _empty(cfg.gaps), {cfg.target: kind}, [cfg.target])[cfg.target]
        return pc.utf8_trim_whitespace(cells).chunks
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return _texts(array).chunks


def _of_one_spelling(words: Any, array: Any) -> Any:
    """Words of the target: one for each number where files write 1, 1.0 and True for the same."""
    if array.type != pa.float64() or pc.count_distinct(array) == pc.count_distinct(words):
        return words
    plain = pc.utf8_lower(pc.replace_substring_regex(words, r"\.0*$", ""))
    if pc.count_distinct(array) == pc.count_distinct(plain):
        return plain
    plain = pc.if_else(pc.equal(plain, "true"), "1", plain)
    return pc.if_else(pc.equal(plain, "false"), "0", plain)


def _texts(array: Any) -> Any:
    """Numbers as texts, whole floats as integers: a gap makes floats of a column of integers."""
    if pa.types.is_floating(array.type):
        there = array.drop_null()
        whole = pc.and_(pc.equal(there, pc.floor(there)), pc.less(pc.abs(there), 2.0**53))
        if pc.all(whole).as_py() in (True, None):
            return array.cast(pa.int64()).cast(pa.string())
        return pc.replace_substring_regex(array.cast(pa.string()), r"\.0$", "")
    return array.cast(pa.string())


def _empty(gaps: list[str]) -> list[str]:
    """The texts that stand for an empty cell of CSV."""
    return [*csv.ConvertOptions().null_values, *BLANKS, *gaps]


def is_csv(path: Path) -> bool:
    """Whether a path is that of a text file, not of Parquet nor of a bundled table."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET)) != PARQUET


def holds_texts(kind: Any) -> bool:
    """Whether cells of Arrow's type are texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def read_file(
    path: Path,
    empty: list[str],
    kinds: dict[str, Any] | None = None,
    only: Sequence[str] = (),
    point: str = ".",
) -> Any:
    """One file as Arrow's table; of CSV, `empty` are texts that stand for an empty cell.

    `kinds` are types of columns that must not be guessed; `only` these columns are read, or all;
    `point` stands before decimals.
    """
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            first = file.read(FIRST)
        _refuse(path, first)
        if first.startswith(PARQUET) or path.suffix.lower() == ".parquet":
            _check_schema(path)
            return _of_usual_types(parquet.read_table(path))
        table = csv.read_csv(
            path,
            csv.ReadOptions(use_threads=False),  # its messages then have the row
            csv.ParseOptions(delimiter=_delimiter(first), newlines_in_values=True),
            csv.ConvertOptions(
                null_values=empty,
                strings_can_be_null=True,
                column_types=kinds,
                include_columns=[*only],
                decimal_point=point,
            ),
        )
        len(table.column_names)  # decodes the names
        if any(_has_lines(column) for column in table.columns):
            _check_quotes(path, _delimiter(first))
    except UnicodeDecodeError as error:
        raise config.ConfigError(
            f"{path} cannot be read: the header is not in UTF-8: save the file in UTF-8"
        ) from error
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):
            raise  # of the disk; Arrow's errors of a file have no number
        raise config.ConfigError(_in_words(path, error)) from error
    return _without_nothing(table)


def _check_schema(path: Path) -> None:
    """Refuse names that occur twice in Parquet: Arrow's own error does not say which."""
    names = parquet.read_schema(path).names
    if twice := {name for name in names if names.count(name) > 1}:
        raise config.ConfigError(f"{path}: two columns have the same name: {min(twice)}")


def _without_nothing(table: Any) -> Any:
    """The table without columns that have neither a name nor a cell, as spreadsheets write them."""
    fields = enumerate(table.schema)
    return table.select([n for n, f in fields if f.name or not pa.types.is_null(f.type)])


def _has_lines(array: Any) -> bool:
    """Whether a cell is a text of several lines."""
    return array.type == pa.string() and bool(pc.any(pc.match_substring(array, "\n")).as_py())


def _check_quotes(path: Path, delimiter: str) -> None:
    """Refuse a quotation mark that begins a cell and ends none: rows below became the cell's."""
    rows = 0
    with (
        pa.input_stream(str(path), compression="detect") as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as file,
    ):
        python_csv.field_size_limit(sys.maxsize)
        try:
            for row in python_csv.reader(file, delimiter=delimiter, strict=True):
                rows += bool(row)  # empty lines are no rows
        except python_csv.Error as error:
            raise config.ConfigError(
                f"{path}, row {rows}: a cell begins with a quotation mark and does not end with "
                'one: write "" for a mark inside, and one more mark at either end (in pandas '
                "read_csv with quoting=3, then to_csv)"
            ) from error


def _refuse(path: Path, first: bytes) -> None:
    """Refuse a file that is no table, or that has blanks between its columns."""
    for begin, reason in NO_TABLES.items():
        if first.startswith(begin):
            raise config.ConfigError(f"{path} cannot be read: {reason}")
    if first[257:262] == b"ustar":
        raise config.ConfigError(f"{path} cannot be read: the file is an archive: unpack the file")
    before, zero, _ = first.partition(b"\0")
    number = before.count(b"\n") + 1
    if zero and not first.startswith(PARQUET):
        raise config.ConfigError(
            f"{path} cannot be read: line {number} has a byte of zero, as files in "
            "UTF-16 have, and files that hold no text: save the table as CSV in UTF-8"
        )
    names, row, *_ = [*first.split(b"\n", 2), b"", b""]
    in_blanks = len(names.split()) == len(row.split()) > 1
    if in_blanks and not any(mark in names + row for mark in DELIMITERS):
        raise config.ConfigError(
            f"{path} cannot be read: blanks stand between the columns: write commas there (in "
            r"pandas read_csv with sep=r'\s+', then to_csv)"
        )


def _of_usual_types(table: Any) -> Any:
    """The table, with texts and floats of types that Arrow can compute with."""
    usual = {"string_view": pa.string(), "halffloat": pa.float32()}  # by name: not all Arrows know
    for number, field in enumerate(table.schema):
        if kind := usual.get(str(field.type)):
            table = table.set_column(number, field.name, table[number].cast(kind))
    return table


def _in_words(path: Path, error: Exception) -> str:
    """Why a file cannot be read; rows are counted from 1, below the header."""
    if not (odd := ODD_ROW.match(str(error))):
        return f"{path} cannot be read: {error}"
    row, names, cells = map(int, odd.groups())
    return (
        f"{path}, row {row - 1}: there are {cells} cells for {names} names of columns: correct the "
        "row, or put cells in quotes that hold what stands between columns"
    )


def _delimiter(first: bytes) -> str:
    """The character that stands most often between the names of the header, outside of quotes."""
    header = re.sub(rb'"[^"]*"', b"", first).lstrip().partition(b"\n")[0]
    return max(DELIMITERS, key=header.count).decode()


def _read_bundled(name: str) -> Any:
    from sklearn import datasets

    if name == "diabetes":
        found = datasets.load_diabetes(scaled=False)
    elif name == "wine":
        found = datasets.load_wine()
    else:
        if name and Path(name).is_dir():
            pattern = str(Path(name, "*.csv"))
            raise config.ConfigError(
                f"data.source = {name!r} is a folder: give a file, or a pattern such as {pattern!r}"
            )
        raise config.ConfigError(
            f"data.source = {name!r}: no such file; bundled are 'diabetes' and 'wine'"
        )
    table = pa.table([*found.data.T, found.target], names=[*found.feature_names, "target"])
    if name == "diabetes":  # a category, though the table has a number for it
        sex = table.column_names.index("sex")
        table = table.set_column(sex, "sex", table["sex"].cast(pa.string()))
    return table


def _compare_names(first: Path, names: list[str], path: Path, others: list[str]) -> None:
    """Refuse a file that has other columns than the first one."""
    if missing := set(names) - set(others):
        raise config.ConfigError(f"{path} has no column {min(missing)!r}, which {first} has")
    if missing := set(others) - set(names):
        raise config.ConfigError(f"{first} has no column {min(missing)!r}, which {path} has")


def _check_names(cfg: config.Data, names: list[str]) -> None:
    """Refuse names that occur twice, or are in the config and not in the file."""
    listed = ", ".join(names)
    if len(set(names)) < len(names):
        raise config.ConfigError(f"two columns have the same name: {listed}")
    for key in ("categories", "leave_out"):
        for name in getattr(cfg, key):
            if name not in names:
                raise config.ConfigError(f"data.{key}: {name!r} is none of the columns {listed}")
    if cfg.groups and cfg.groups not in {*names} - {cfg.target}:
        raise config.ConfigError(
            f'data.groups = {cfg.groups!r} must be "" or a column besides data.target: {listed}'
        )
    if cfg.target in cfg.leave_out:
        raise config.ConfigError(
            f"data.leave_out names {cfg.target!r}, which is data.target: take the name out of "
            "data.leave_out, or choose another target"
        )
    if cfg.target not in names:
        spaced = [f": {name!r} has blanks" for name in names if name.strip() == cfg.target]
        words = f"data.target = {cfg.target!r}: the columns are {listed}"
        raise config.ConfigError("".join([words, *spaced]))


def _check_header(path: Path, table: Any) -> None:
    """Refuse a first row that is no header: numbers above numbers, or texts that come again.

    Where all names are whole numbers, they may count the columns: 0, 1, 2.
    """
    texts = [name for name in table.column_names if pa.types.is_string(table[name].type)]
    others = [name for name in table.column_names if name not in texts]
    few = [name for name in texts if 2 * pc.count_distinct(table[name]).as_py() <= len(table)]
    times = [pc.sum(pc.equal(table[name], name)).as_py() for name in few]
    again = bool(few) and all((count or 0) > 1 for count in times)
    fractions = not texts and not all(name.strip().isdecimal() for name in others)
    if (again or fractions) and all(re.match(NUMBER, name) for name in others):
        raise config.ConfigError(
            f"{path}: the first row, {', '.join(table.column_names)}, is one of data: write the "
            "names of the columns above it"
        )


def _digits(array: Any, name: str, path: Path, cfg: config.Data) -> Any:
    """The whole numbers of a column with all of their digits; nothing where none could be lost.

    Arrow makes floats of a column of CSV with a number of more than 64 bits.
    """
    if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
        return array
    is_float = pa.types.is_floating(array.type)
    if not is_float or (pc.max(pc.abs(array)).as_py() or 0) < EXACT or not is_csv(path):
        return pa.nulls(0, pa.int64())
    cells = read_file(path, _empty(cfg.gaps), {name: pa.string()}, [name])[name]
    cells = pc.utf8_trim_whitespace(cells)
    return cells.filter(pc.match_substring_regex(cells, WHOLE)).cast(pa.decimal256(76))


def _check_digits(digits: Any, name: str, path: Path) -> None:
    """Refuse whole numbers that are different, but not any more when they are floats."""
    floats = digits.cast(pa.float64(), safe=False)
    if pc.count_distinct(floats).as_py() < pc.count_distinct(digits).as_py():
        raise config.ConfigError(
            f"{path}: column {name!r} has whole numbers that a float of 64 bits cannot tell "
            f"apart: subtract {pc.min(digits).as_py()} from all of them, or, if they only name "
            "something, list the column in data.leave_out or data.categories"
        )


def _check_points(array: Any, name: str, path: Path, cfg: config.Data) -> str:
    """Refuse 1.234 beside 987: points between thousands, which Arrow takes for decimal points.

    Where all cells are such as 1.234, either may be meant: words say how they are read. So do they
    for long numbers of which a spreadsheet has cut the last digits.
    """
    largest = pc.max(pc.abs(array)).as_py() if pa.types.is_floating(array.type) else None
    if largest is None or 1000 <= largest < LONG or not is_csv(path):
        return ""
    cells = read_file(path, _empty(cfg.gaps), {name: pa.string()}, [name])[name]
    if pc.all(pc.match_substring_regex(cells, CUT)).as_py():
        return f"; {name} has lost digits: {cells.drop_null()[0]} is how a spreadsheet writes"
    if cfg.numbers != "plain":
        return ""
    with_point, without = (pc.match_substring_regex(cells, words) for words in (POINTS, HUNDREDS))
    if not pc.any(with_point).as_py() or not pc.all(pc.or_(with_point, without)).as_py():
        return ""
    row = pc.index(with_point, True).as_py()
    cell = cells[row].as_py().strip()
    if not pc.any(without).as_py():
        whole = cell.replace(".", "")
        return f"; {name} is read with decimals: if {cell} is {whole}, set data.numbers=1.234,5"
    raise config.ConfigError(
        f"{path}, row {row + 1}: column {name!r} is {cell!r}, and cells without a point are below "
        'a thousand: if the point stands between thousands, data.numbers = "1.234,5" says so; else '
        "write whole numbers as 987.0"
    )


def join(name: str, parts: list[Any], files: list[Path], numbers: str) -> Any:
    """One column of all files: texts, where a file has texts, or where `numbers` is empty.

    Else numbers, and texts that are numbers as data.numbers has them.
    """
    arrays = [_plain(part[name], name, path) for part, path in zip(parts, files, strict=True)]
    if numbers in WRITTEN:
        arrays = [_in_plain(array, WRITTEN[numbers]) for array in arrays]
    has_texts = any(array.type == pa.string() for array in arrays)
    kind = pa.float64() if numbers and not has_texts else pa.string()
    if kind == pa.string():
        arrays = [_texts(array) for array in arrays]
    chunks = [chunk.cast(kind, safe=False) for array in arrays for chunk in array.chunks]
    return pa.chunked_array(chunks, type=kind)


def _plain(array: Any, name: str, path: Path) -> Any:
    """The column with one type for texts, days and times; ConfigError for lists and others."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    is_date = pa.types.is_temporal(kind) and not pa.types.is_duration(kind)
    if holds_texts(kind) or is_date:
        return array.cast(pa.string())
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(fits(kind) for fits in (*numbers, pa.types.is_boolean, pa.types.is_null)):
        raise config.ConfigError(
            f"{path}: column {name!r} is of type {kind}: give numbers or texts in UTF-8, or name "
            "it in data.leave_out"
        )
    return array


def _in_plain(array: Any, written: str) -> Any:
    """The column as numbers, where all of its texts are such; or its numbers as 1234.5."""
    if array.type != pa.string():
        return array
    found = pc.extract_regex(array, written)
    has_digit = pc.fill_null(pc.match_substring_regex(array, r"\d"), False)
    is_number = pc.and_(pc.is_valid(found), has_digit)
    count, filled = pc.sum(is_number).as_py() or 0, len(array) - array.null_count
    if 2 * count <= filled:
        return array
    whole, rest, power = (pc.struct_field(found, name) for name in ("whole", "rest", "power"))
    whole = pc.replace_substring_regex(whole, r"\D", "")
    sign = pc.if_else(pc.match_substring_regex(array, IS_BELOW_ZERO), "-", "")
    plain = pc.binary_join_element_wise(sign, "0", whole, ".", rest, "0", power, "")
    cells = pc.if_else(is_number, plain, array)
    return cells.cast(pa.float64()) if count == filled else cells


# --- From columns to numbers ---


def encode(table: Table, cfg: config.Data) -> dict[str, Any]:
    """The content that data.py keeps: the rows of both splits as tensors, and their shape."""
    for name in table.columns:
        _check_cells(table, name, cfg)
    val, train = _divide(table, cfg)
    if len(train) < 2:
        raise config.ConfigError(f"data.validation = {cfg.validation} leaves no rows for training")
    features = [name for name in table.columns if name != cfg.target]
    left = [n for n in features if n not in cfg.categories and _counts_rows(table, n)]
    features = [name for name in features if name not in left]
    if not features:
        raise config.ConfigError(_no_feature(cfg, left))
    texts = [name for name in features if table.columns[name].type == pa.string()]
    learnt: dict[str, dict[str, Any]] = {
        "numbers": _learn_numbers(table, [name for name in features if name not in texts], train),
        "texts": {name: _learn_texts(table.columns[name], train) for name in texts},
    }
    numbers, categories = apply(table, learnt)
    targets, target = _encode_target(table, cfg, train)
    rows = (numbers, categories, targets)
    source = str(table.files[0]) if len(table.files) == 1 else f"{len(table.files)} files"
    if left:
        source += f" without {', '.join(map(repr, left))}, which only numbers the rows"
    words = f"{table.ends[-1]:,} rows of {source}; {target['words']}{table.doubts}"
    for verb, paths in (("held", table.held_out), ("left", table.left_out)):
        words += f"; {verb} out by name: {', '.join(map(str, paths))}" if paths else ""
    if same := [name for name in features if _tells_target(table, name, cfg.target)]:
        words += f"; the target follows from {', '.join(map(repr, same))} alone: data.leave_out?"
    if again := _count_again(rows, train, val):
        words += f"; {again:,} of the {len(val):,} rows held out are for training, too"
    return {
        "train": [tensor[train] for tensor in rows],
        "val": [tensor[val] for tensor in rows],
        "places": {"files": [*map(str, table.files)], "ends": table.ends, "rows": val},
        "shape": {
            "numbers": numbers.shape[1],
            "values": 1 + sum(map(len, learnt["texts"].values())),
            "columns": learnt,
            **target,
            "words": words,
            "content": _digest(table, [*features, cfg.target], (train, val)),
        },
    }


def _digest(table: Table, names: list[str], splits: tuple[Tensor, Tensor]) -> str:
    """Eight digits that follow from the cells of both splits.

    Of what is computed from cells, such as means, another CPU may give other last bits.
    """
    found = hashlib.sha256()
    for name in names:
        for split in splits:
            cells = table.columns[name].take(split.numpy())
            numbers = cells.type == pa.float64()
            found.update(cells.to_numpy() if numbers else repr(cells.to_pylist()).encode())
    return found.hexdigest()[:8]


def _divide(table: Table, cfg: config.Data) -> tuple[Tensor, Tensor]:
    """The rows that are held out, by their files' names or drawn by chance, and the others."""
    chance, count = torch.Generator().manual_seed(cfg.split_seed), table.ends[-1]
    if table.held_out:
        return _divide_by_name(table, cfg)
    if table.groups is None:
        order = torch.randperm(count, generator=chance)
        held_out = max(1, round(cfg.validation * count))
        return order[:held_out], order[held_out:]
    if table.groups.null_count:
        row = pc.index(pc.is_null(table.groups), True).as_py()
        raise config.ConfigError(
            f"{table.place(row)}: column {cfg.groups!r}, data.groups, is empty: fill it"
        )
    found = table.groups.unique()
    groups = torch.tensor(pc.index_in(table.groups, value_set=found).to_numpy())
    place = torch.randperm(len(found), generator=chance)[groups]  # of its group, for each row
    ends = place.bincount().cumsum(0)[:-1]  # of all groups but the last
    if not len(ends):
        raise config.ConfigError(f"data.groups = {cfg.groups!r}: all rows are of one group")
    held_out = int(ends[(ends - cfg.validation * count).abs().argmin()])
    order = place.argsort(stable=True)
    return order[:held_out], order[held_out:]


def _divide_by_name(table: Table, cfg: config.Data) -> tuple[Tensor, Tensor]:
    """The rows of the files that are held out, and the others."""
    sizes = torch.tensor(table.ends).diff(prepend=torch.tensor([0]))
    named = torch.tensor([path in table.held_out for path in table.files])
    held_out = named.repeat_interleave(sizes)
    val, train = held_out.nonzero().flatten(), (~held_out).nonzero().flatten()
    if table.groups is not None:
        taken = (table.groups.take(pa.array(rows.numpy())) for rows in (val, train))
        known, others = ({*cells.drop_null().to_pylist()} for cells in taken)
        if both := known & others:
            raise config.ConfigError(
                f"data.groups = {cfg.groups!r}: rows of {min(both)!r} are in {table.held_out[0]} "
                "or another file held out, and in files for training: move them together"
            )
    return val, train


def _tells_target(table: Table, name: str, target: str) -> bool:
    """Whether a column is the target in other words: each value of either has one of the other.

    Where most values are there once, that says nothing, unless their order is the same.
    """
    pairs = pa.table({"left": table.columns[name], "right": table.columns[target]}).drop_null()
    distinct, others = (pc.count_distinct(pairs[side]).as_py() for side in ("left", "right"))
    if len(pairs) < FEWEST_ROWS or distinct != others or distinct < 2:
        return False
    met = pairs.group_by(["left", "right"]).aggregate([]).sort_by("left")
    return len(met) == distinct and (2 * distinct <= len(pairs) or _in_order(met))


def _in_order(pairs: Any) -> bool:
    """Whether the numbers on the right rise or fall with those on the left."""
    if pa.string() in pairs.schema.types:
        return False
    steps = pc.pairwise_diff(pairs["right"].combine_chunks())
    return bool(pc.all(pc.greater(steps, 0.0)).as_py() or pc.all(pc.less(steps, 0.0)).as_py())


def _count_again(rows: tuple[Tensor, ...], train: Tensor, val: Tensor) -> int:
    """How many of the rows that are held out are equal to one for training, and tell too little."""
    numbers, categories, targets = rows
    whole = torch.cat((numbers, categories.float(), targets[:, None]), 1).numpy()
    known = {row.tobytes() for row in whole[train.numpy()]}
    return sum(row.tobytes() in known for row in whole[val.numpy()])


def _no_feature(cfg: config.Data, left: list[str]) -> str:
    words = f"data.target = {cfg.target!r}: there is nothing to learn from besides the target"
    if left:
        words += f"; {', '.join(map(repr, left))} only numbers the rows"
    if cfg.leave_out:
        return f"{words}: take a column out of data.leave_out = {cfg.leave_out}"
    return f"{words}: give a table with more columns"


def apply(table: Table, learnt: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Numbers and categories of any rows, as those of the training split became them."""
    return _scale_numbers(table, learnt["numbers"]), _number_texts(table, learnt["texts"])


def _counts_rows(table: Table, name: str) -> bool:
    """Whether a column is the index that a program has written: another number in each row."""
    array = table.columns[name]
    if not INDEX.fullmatch(name) or array.type != pa.float64() or array.null_count:
        return False
    begins = [0, *table.ends[:-1]]
    parts = [array.slice(b, e - b) for b, e in zip(begins, table.ends, strict=True)]
    return all(
        pc.all(pc.equal(pc.floor(part), part)).as_py()
        and pc.count_distinct(part).as_py() == len(part)
        for part in parts
    )


def _check_cells(table: Table, name: str, cfg: config.Data) -> None:
    """Refuse cells that would turn a column into something else than it is meant to be."""
    array = table.columns[name]
    if array.type == pa.float64():
        table.refuse(pc.is_inf(array), name, ", and only finite numbers can be learnt from")
        return
    if name in cfg.categories:
        return
    if name != cfg.target and pc.all(pc.match_substring_regex(array, DATE)).as_py():
        raise config.ConfigError(
            f"column {name!r} holds dates or times, which tell nothing of later ones: name the "
            "column in data.leave_out, or write as numbers what may matter, such as the month, the "
            "day of the week or the days since the first; data.categories takes it as it is"
        )
    if len(array) and str(array[-1]).strip().casefold() in TOTALS:
        row = pc.equal(array, array[-1])
        if pc.sum(row).as_py() == 1:
            table.refuse(row, name, ", in the last row alone: a sum is no sample: remove the row")
    is_text = pc.invert(pc.match_substring_regex(array, NUMBER))
    filled, distinct = len(array) - array.null_count, pc.count_distinct(array).as_py()
    is_marked = pc.and_(is_text, pc.match_substring_regex(array, MARKED))
    numbers = filled - pc.sum(pc.and_not(is_text, is_marked), min_count=0).as_py()
    if 2 * numbers > filled:
        table.refuse(
            is_marked,
            name,
            ", a number with a comma, with marks between thousands, with a sign, with another dash "
            "than - or in parentheses: where all numbers are written so, set data.numbers to "
            f"{' or '.join(repr(n) for n in WRITTEN if n != cfg.numbers)}; else write them as "
            "1234.5, or name the column in data.categories",
        )
    _check_unit(table, name)
    is_limit = pc.match_substring_regex(array, LIMIT)
    if pc.all(pc.or_(is_limit, pc.invert(is_text))).as_py() and not pc.all(is_limit).as_py():
        table.refuse(
            is_limit,
            name,
            ", a limit among numbers: write a number in its place, such as half of the limit, list "
            "the text in data.gaps to know nothing there, or name the column in data.categories",
        )
    if 2 * pc.sum(is_text, min_count=0).as_py() < filled:
        table.refuse(
            is_text,
            name,
            ", but most of its cells are numbers: correct the cell, list its text in data.gaps if "
            "it stands for an empty cell, or name the column in data.categories",
        )
    if 2 * distinct > filled:
        remedy = "choose another target" if name == cfg.target else "name it in data.leave_out"
        if not pc.any(is_text).as_py():
            remedy += "; or, where all are quantities, save them as numbers, not as texts"
        raise config.ConfigError(
            f"column {name!r} has {distinct:,} different texts in {filled:,} rows, which tell "
            f"rows apart but nothing about others: {remedy}"
        )


def _check_unit(table: Table, name: str) -> None:
    """Refuse quantities that have a unit behind them: as texts no number would be near another."""
    array = table.columns[name]
    units = pc.struct_field(pc.extract_regex(array, UNIT), "unit")
    counted = [(entry["counts"], entry["values"]) for entry in pc.value_counts(units).to_pylist()]
    count, unit = max(((c, u) for c, u in counted if u is not None), default=(0, ""))
    has_unit = pc.equal(units, unit)
    many = pc.count_distinct(array.filter(has_unit)).as_py() > FEW_VALUES
    if many and 2 * count > len(array) - array.null_count:
        table.refuse(
            has_unit,
            name,
            f", a number with its unit: write the number alone, and {unit} in the column's name, "
            "or name the column in data.categories",
        )


def _learn_numbers(table: Table, names: list[str], train: Tensor) -> dict[str, list[float]]:
    """Of each column: median, mean, deviation, and whether there are gaps, as 0 or 1."""
    if not names:
        return {}
    raw = _stack(table, names)[train]
    gaps = raw.isnan()
    if (empty := gaps.all(0)).any():
        name = names[int(empty.nonzero()[0])]
        raise config.ConfigError(f"column {name!r} has no value to train on: data.leave_out")
    median = raw.nanmedian(0).values
    mean, deviation = _spread(torch.where(gaps, median, raw))
    if not (finite := deviation.isfinite()).all():
        raise config.ConfigError(_too_wide(names[int((~finite).nonzero()[0])]))
    found: list[list[float]] = torch.stack((median, mean, deviation, gaps.any(0)), 1).tolist()
    return dict(zip(names, found, strict=True))


def _scale_numbers(table: Table, learnt: dict[str, list[float]]) -> Tensor:
    """[rows, numbers] float32: standardised columns, and one for each with gaps that tells them.

    A gap has the median of its column, so that the model sees something usual.
    """
    if not learnt:
        return torch.zeros(table.ends[-1], 1)  # a layer needs an input
    raw = _stack(table, list(learnt))
    median, mean, deviation, has_gaps = torch.tensor([*learnt.values()], dtype=torch.float64).T
    gaps = raw.isnan()
    scaled = ((torch.where(gaps, median, raw) - mean) / deviation).float()
    for name, column in zip(learnt, scaled.T, strict=True):
        table.refuse(pa.array((~column.isfinite()).numpy()), name, FAR)
    return torch.cat((scaled, gaps[:, has_gaps > 0]), 1)


def _stack(table: Table, names: list[str]) -> Tensor:
    """[rows, names] float64, gaps as NaN."""
    return torch.stack([torch.tensor(table.columns[name].to_numpy()) for name in names], 1)


def _spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column; a constant one stays unscaled.

    What is summed are differences from the first row, divided by the largest: sums of numbers that
    lie far from 0 would lose their last digits, and squares of very large ones are infinite.
    """
    differences = values - values[0]
    largest = differences.abs().amax(0)
    largest = largest.where(largest > 0, 1.0)
    deviation, mean = torch.std_mean(differences / largest, 0)
    deviation = deviation * largest
    return values[0] + mean * largest, deviation.where(deviation != 0, 1.0)


def _too_wide(name: str) -> str:
    return (
        f"column {name!r} ranges over more than a float can hold: correct the values, take their "
        "logarithm, or name the column in data.leave_out"
    )


def _learn_texts(array: Any, train: Tensor) -> list[str | None]:
    """The texts of a column in order, None for an empty cell."""
    known = array.take(train.numpy()).unique()
    found = known.take(pc.array_sort_indices(known))
    kept: dict[str | None, str | None] = {}
    for text, meaning in zip(found.to_pylist(), _meaning(found).to_pylist(), strict=True):
        kept.setdefault(meaning, text)
    return [*kept.values()]


def _meaning(texts: Any) -> Any:
    """The same text for 2 and 2.0, and for True and true, which programs write for each other.

    A whole number becomes 2.0 where another row of its column is empty; of bools, Parquet has no
    spelling, and pandas, R and spreadsheets each have their own.
    """
    whole = pc.replace_substring_regex(texts, r"^(\d+)\.0$", r"\1")
    return pc.if_else(pc.match_substring_regex(texts, BOOL), pc.utf8_lower(texts), whole)


def _number_texts(table: Table, learnt: dict[str, list[str | None]]) -> Tensor:
    """[rows, columns] int64: each text of each column has its own number, and an unknown one 0."""
    encoded, values = [], 1
    for name, known in learnt.items():
        value_set, texts = pa.array(known, type=pa.string()), table.columns[name]
        exact = pc.index_in(texts, value_set=value_set)
        alike = pc.index_in(_meaning(texts), value_set=_meaning(value_set))
        numbers = pc.fill_null(pc.coalesce(exact, alike), -values)
        encoded.append(torch.tensor(numbers.to_numpy()).long() + values)
        values += len(known)
    return torch.stack(encoded, 1) if encoded else torch.zeros(table.ends[-1], 0).long()


# --- The target ---


def _encode_target(table: Table, cfg: config.Data, train: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Targets [rows] float32, and what data.Shape says of them."""
    array = table.columns[cfg.target]
    reason = ", and it is data.target: leave such rows out"
    table.refuse(pc.is_null(array, nan_is_null=True), cfg.target, reason)
    if _choose_task(array, table.words, cfg) == "regression":
        values = torch.tensor(array.to_numpy())
        mean, deviation = _spread(values[train])
        scaled = ((values - mean) / deviation).float()
        if not deviation.isfinite():
            raise config.ConfigError(_too_wide(cfg.target))
        table.refuse(pa.array((~scaled.isfinite()).numpy()), cfg.target, FAR)
        if scaled[train].std() == 0:
            raise config.ConfigError(
                f"data.target = {cfg.target!r}: the training rows do not differ, or by so little "
                "that floats cannot tell: multiply the values, or choose another target"
            )
        words = f"{cfg.target} is a quantity, {mean:.6g} in the mean"
        scale: dict[str, Any] = {"mean": mean.item(), "unit": deviation.item(), "labels": []}
        return scaled, {"outputs": 1, **scale, "words": words}
    pairs = pa.table({"value": array, "word": table.words}).group_by(["value", "word"])
    order = [("value", "ascending"), ("word", "ascending")]
    classes = pairs.aggregate([]).sort_by(order)["word"].combine_chunks()
    numbers = torch.tensor(pc.index_in(table.words, value_set=classes).to_numpy()).long()
    count = numbers[train].bincount(minlength=len(classes))
    names = classes.to_pylist()
    if not count.all():
        raise config.ConfigError(
            f"data.target = {cfg.target!r}: no training row is {names[int(count.argmin())]!r}, "
            "which is too rare: leave its rows out, or join classes"
        )
    share, most = count.max() / len(train), names[int(count.argmax())]
    words = f"{cfg.target} has {len(classes)} classes, {share:.1%} of the rows are {most!r}"
    held_out = numbers.bincount(minlength=len(classes)) - count
    if not held_out.all():
        words += f"; no row held out is {names[int(held_out.argmin())]!r}"
    if alike := _alike(names):
        words += f"; {' and '.join(map(repr, alike))} are different classes"
    scale = {"mean": 0.0, "unit": 1.0, "labels": names}
    return numbers.float(), {"outputs": len(names), **scale, "words": words}


def _alike(names: list[str]) -> list[str]:
    """The first names that differ by capitals and blanks only."""
    found: dict[str, list[str]] = {}
    for name in names:
        plain = unicodedata.normalize("NFC", name).casefold()
        found.setdefault(" ".join(plain.split()), []).append(name)
    return next((same for same in found.values() if len(same) > 1), [])


def _choose_task(array: Any, words: Any, cfg: config.Data) -> str:
    """The task of the config, or the likeliest that the target's values allow.

    Raises ConfigError where they do not allow the task, or where two are as likely.
    """
    is_text, distinct = array.type == pa.string(), pc.count_distinct(words).as_py()
    whole = is_text or pc.all(pc.equal(pc.floor(array), array)).as_py()
    allowed = []
    if whole and distinct == 2:
        allowed.append("binary")
    if whole and 1 < distinct <= len(array) / 2:
        allowed.append("classes")
    if not is_text and pc.count_distinct(array).as_py() > 1:
        allowed.insert(0 if distinct > FEW_VALUES else len(allowed), "regression")
    if cfg.task in allowed:
        return cfg.task
    if cfg.task == "auto" and allowed and allowed != ["classes", "regression"]:
        return allowed[0]
    raise config.ConfigError(
        f"data.task = {cfg.task!r}, but {cfg.target} has {distinct:,} different "
        f"{'texts' if is_text else 'numbers'}: "
        + (f"data.task = {' or '.join(map(repr, allowed))}?" if allowed else "nothing to learn")
    )
