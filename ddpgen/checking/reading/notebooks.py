"""Notebooks as the rules see them: their cells as Python, and where each line stands."""

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ddpgen.checking.reading.programs import Module

SUFFIX = ".ipynb"
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
# %name, !command, ?name and name? on a line of their own; files = !ls
_MAGIC = re.compile(r"(\s*)(?:%{1,2}[A-Za-z]|!(?!=)|\?|[\w.]+\?{1,2}\s*$).*")
_ASSIGNED = re.compile(r"(\s*[\w., ]+=\s*)(?:%[A-Za-z]|!).*")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)(.*)")
_AROUND_PYTHON = ("time", "timeit", "capture", "prun")
_WRITES = ("writefile", "file")


class NotebookError(ValueError):
    """What a file is that should be a notebook, but cannot be read as one."""


class Place(NamedTuple):
    """Where a line of code stands: in which cell and line of it, at what line of the file.

    The column is that of its first character in the file.
    """

    cell: int
    row: int
    line: int
    column: int


class Row(NamedTuple):
    """A line of code and its place."""

    text: str
    place: Place


class _Piece(NamedTuple):
    """A text in a file, and where its first character stands."""

    text: str
    begin: int


class Notebook(Module):
    """The code of a notebook, or of a file that one of its cells writes.

    The path is one below the notebook, so that files which cells write can import each other.
    """

    def __init__(self, file: Path, name: str, rows: list[Row]) -> None:
        super().__init__(file / name, "\n".join(row.text for row in rows))
        self.file = file
        self.places = [row.place for row in rows] or [Place(1, 1, 1, 1)]
        self.unread: list[str] = []  # cells that are no Python

    def in_file(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the notebook's file of a place in the code."""
        place = self.places[line - 1]
        return place.line, place.column + _written(self.lines[line - 1][: column - 1])

    def cell(self, line: int) -> str:
        """Where somebody who sees the notebook finds a line."""
        place = self.places[line - 1]
        return f"cell {place.cell}, line {place.row}"


def read(path: Path, text: str) -> list[Notebook]:
    """A notebook's own code, and each Python file that it writes by `%%writefile`.

    Raises:
        NotebookError: the text is no notebook of format 4 with Python in it.
        SyntaxError: no cell is valid Python; the line is that of the file.
    """
    own: list[Row] = []
    written: dict[str, list[Row]] = {}
    unread: list[SyntaxError] = []
    for cell in _cells(text):
        first = next((row.text for row in cell if row.text.strip()), "")
        magic = _CELL_MAGIC.match(first)
        name, options = (magic[1], magic[2].split()) if magic else ("", [])
        if name in _WRITES and options and options[-1].endswith(".py"):
            parts = [p for p in PurePosixPath(options[-1]).parts if p not in ("/", "..")]
            rows = [row._replace(text="") if row.text == first else row for row in cell]
            before = written.get("/".join(parts), []) if "-a" in options else []
            with _noting(unread):
                written["/".join(parts)] = [*before, *_valid(rows)]
        elif not name or name in _AROUND_PYTHON:
            with _noting(unread):
                own += _valid(_python(cell))
    if unread and not (own or written):
        raise unread[0]
    files = {"__main__.py": own} | written
    found = [Notebook(path, name, rows) for name, rows in files.items()]
    found[0].unread = [str(error.msg) for error in unread]
    return found


@contextmanager
def _noting(unread: list[SyntaxError]) -> Iterator[None]:
    """Leave out a cell that is no Python: the others are read."""
    try:
        yield
    except SyntaxError as error:
        unread.append(error)


def _cells(text: str) -> Iterator[list[Row]]:
    """The lines of each cell that holds code."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotebookError(f"is no notebook: no JSON at line {error.lineno}") from error
    content = _placed(content, (found.start() + 1 for found in _STRING.finditer(text)))
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotebookError("is no notebook of format 4: it has no cells")
    _demand_python(content.get("metadata"))
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    for number, cell in enumerate(cells, 1):
        if isinstance(cell.get("cell_type"), _Piece) and cell["cell_type"].text == "code":
            rows = []
            for row, (code, begin) in enumerate(_rows(cell.get("source")), 1):
                line = bisect_right(lines, begin)
                rows.append(Row(code, Place(number, row, line, begin - lines[line - 1] + 1)))
            yield rows


def _placed(node: Any, begins: Iterator[int]) -> Any:
    """A JSON value with the place of each text: texts come in the order of the file."""
    if isinstance(node, str):
        return _Piece(node, next(begins))
    if isinstance(node, list):
        return [_placed(each, begins) for each in node]
    if isinstance(node, dict):
        found = {}
        for name, value in node.items():
            next(begins)
            found[name] = _placed(value, begins)
        return found
    return node


def _demand_python(metadata: Any) -> None:
    for name, key in (("kernelspec", "language"), ("language_info", "name")):
        about = metadata.get(name) if isinstance(metadata, dict) else None
        language = about.get(key) if isinstance(about, dict) else None
        if isinstance(language, _Piece) and language.text.lower() not in ("python", "ipython"):
            raise NotebookError("is a notebook in another language than Python")


def _rows(source: Any) -> Iterator[_Piece]:
    """The lines of a cell: one text, or a list of texts that mostly are a line each."""
    line, first = "", -1
    for piece in source if isinstance(source, list) else [source]:
        if not isinstance(piece, _Piece):
            raise NotebookError("is no notebook of format 4: a cell has no source")
        begin = piece.begin
        for part in re.findall(r"[^\n]*\n|[^\n]+", piece.text):
            first = begin if first < 0 else first
            line += part
            begin += _written(part)
            if part.endswith("\n"):
                yield _Piece(line[:-1].rstrip("\r"), first)
                line, first = "", -1
    if line:
        yield _Piece(line, first)


def _written(text: str) -> int:
    """How many characters a text takes in the file, with backslashes before quotes and others."""
    return len(json.dumps(text, ensure_ascii=False)) - 2


def _python(rows: list[Row]) -> list[Row]:
    """A cell without what only IPython understands: such lines do nothing."""
    if _mistake(rows) is None:
        return rows
    found, goes_on = [], False
    for text, place in rows:
        if goes_on:
            new = ""
        elif _MAGIC.fullmatch(text):
            new = _MAGIC.sub(r"\1pass", text)
        else:
            new = _ASSIGNED.sub(r"\1...", text)
        goes_on = text.endswith("\\") and new != text
        found.append(Row(new, place))
    return found


def _valid(rows: list[Row]) -> list[Row]:
    if mistake := _mistake(rows):
        place = rows[min(mistake, len(rows)) - 1].place
        raise SyntaxError(f"cell {place.cell}, line {place.row}", ("", place.line, 1, ""))
    return rows


def _mistake(rows: list[Row]) -> int | None:
    """The first line that is not valid Python, counted in the cell."""
    try:
        ast.parse("\n".join(row.text for row in rows))
    except SyntaxError as error:
        return error.lineno or 1
    return None
