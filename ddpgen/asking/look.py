"""Looks at what somebody wants to train on: which family fits, and how train.py is told.

Only the standard library reads here, and little of each file: the project itself reads all of it,
and is strict. What is proposed here is a beginning.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ddpgen.asking.column import Column
from ddpgen.errors import DdpgenError, show

IMAGES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
TABLES = {".csv", ".tsv", ".parquet"}
ROWS = 1000  # of a table that are looked at
VALIDATION = ("val", "valid", "validation")  # folders of images that are held out
TARGETS = ("target", "label", "class", "y", "price")
RECORDS = (".csv", ".jsonl")  # of texts with labels
KNOWN = (
    "known are images in one folder per class, tables (.csv, .parquet), texts with labels (.csv, "
    ".jsonl), texts (.txt) and tokens (.bin); for all else: --data model=custom"
)


class Found(NamedTuple):
    """What lies at a path: in words, which kind of data it is, and arguments of train.py."""

    words: list[str]
    kind: str  # as copier.yml calls it, below `data:`; "" for nothing
    arguments: list[str]


def look_at(texts: list[str]) -> Found:
    """Look at the path that was given, if one was.

    Raises:
        DdpgenError: several were given; or as `look`.
    """
    if len(texts) > 1 or texts == [""]:
        shown = " and ".join(map(show, texts))
        raise DdpgenError(f"--data {shown}: give one path; an answer is written key=value")
    if texts and not texts[0].isprintable():
        raise DdpgenError(f"--data {show(texts[0])}: contains a line break or a control character")
    return look(Path(texts[0])) if texts else Found([], "", [])


def look(path: Path) -> Found:
    """Say what lies at a path, and propose how to train on it.

    Raises:
        DdpgenError: nothing lies there, or nothing that a family reads.
    """
    try:
        found = _look_in_folder(path) if path.is_dir() else _look_at_file(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "is not text in UTF-8"
        raise DdpgenError(f"--data {show(str(path))}: {reason}") from error
    if found is None:
        raise DdpgenError(f"--data {show(str(path))}: nothing that a family reads", remedy=KNOWN)
    return found


def _look_in_folder(folder: Path) -> Found | None:
    source = f"data.source={folder.absolute()}"
    if found := _images(folder, source) or _split_records(folder, source):
        return found
    if tokens := _count(folder.glob("*"), {".bin"}):
        return _tokens(f"{tokens:,} files of tokens", source)
    if tables := [path for path in sorted(folder.glob("*")) if path.suffix in TABLES]:
        return _tables(tables)
    if texts := _count(folder.rglob("*"), {".txt"}):
        return Found([f"{texts:,} texts"], "text", [source])
    return None


def _images(folder: Path, source: str) -> Found | None:
    train = folder / "train"
    held_out = [folder / name for name in VALIDATION if (folder / name).is_dir()]
    alone = train.is_dir() and not held_out  # what else is there, such as test/, is no class
    if alone and (inside := _images(train, f"data.source={train.absolute()}")):
        return inside
    parts = [train, held_out[0]] if train.is_dir() and held_out else [folder]
    found = {path.name for part in parts for path in part.glob("*/")}
    classes = [name for name in found if not name.startswith((".", "__"))]
    images = sum(_count(part.rglob("*"), IMAGES) for part in parts)
    if len(classes) < 2 or not images:
        return None
    words = f"{images:,} images in {len(classes):,} classes"
    words += f", some of them in {parts[-1].name}/" if len(parts) > 1 else ""
    sizes = ["data.channels=3", "data.image_size=64", "data.flip=true"]
    return Found([words], "images", [source, *sizes])


def _split_records(folder: Path, source: str) -> Found | None:
    """Texts with labels in train.* and val.*."""
    found = [[p for p in folder.glob(f"{n}.*") if p.suffix in RECORDS] for n in ("train", "val")]
    inside = _look_at_file(found[0][0]) if all(found) else None
    if not inside or inside.kind != "labelled texts":
        return None
    return inside._replace(arguments=[source, *inside.arguments[1:]])


def _tables(paths: list[Path]) -> Found | None:
    first = paths[0]
    same = [path for path in paths if path.suffix == first.suffix]
    found = _look_at_file(first)
    if not found or len(same) == 1:
        return found
    pattern = f"data.source={first.parent.absolute()}/*{first.suffix}"
    words = [f"{len(same):,} tables; of the first:", *found.words]
    return Found(words, found.kind, [pattern, *found.arguments[1:]])


def _look_at_file(path: Path) -> Found | None:
    source = f"data.source={path.absolute()}"
    if not path.is_file():
        raise DdpgenError(
            f"--data {show(str(path))}: there is no such file or folder",
            remedy="an answer is written key=value",
        )
    match path.suffix.lower():
        case ".txt":
            return Found([f"a text of {path.stat().st_size:,} bytes"], "text", [source])
        case ".bin":
            return _tokens(f"a file of tokens, {path.stat().st_size:,} bytes", source)
        case ".jsonl":
            return _records(path, source)
        case ".parquet":
            words = "a table; name the column to predict with data.target"
            return Found([words], "rows", [source])
        case ".csv" | ".tsv":
            return _table(path, source)
    return None


def _count(paths: Iterable[Path], endings: set[str]) -> int:
    return sum(path.suffix.lower() in endings and path.is_file() for path in paths)


def _tokens(words: str, source: str) -> Found:
    more = "say their type and the tokenizer's size: data.token_dtype, data.vocabulary"
    return Found([words, more], "text", [source])


def _table(path: Path, source: str) -> Found | None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        file.seek(0)
        delimiter = max(",;\t", key=header.count)
        reader = csv.reader(file, delimiter=delimiter)
        names = next(reader, [])
        rows = [row for row in islice(reader, ROWS) if len(row) == len(names)]
        more = "more than " if next(reader, None) else ""
    if not rows:
        return None
    columns = list(_columns(names, rows))
    size = f"{more}{len(rows):,} rows, {len(names):,} columns"
    if delimiter == "," and path.suffix in RECORDS and (labelled := _labelled(columns)):
        return _texts(size, *labelled, source)
    useful = [column for column in columns if not column.tells_rows_apart] or columns
    target = next((c for c in useful if c.name.lower() in TARGETS), useful[-1])
    words = [size, *(column.describe() for column in columns)]
    words.append(f"to predict: {target.name} -> {target.task()}")
    arguments = [source, f"data.target={target.name}", f"data.task={target.task()}"]
    if left := [column.name for column in columns if column not in useful]:
        arguments.append(f"data.leave_out={json.dumps(left)}")
    return Found(words, "rows", arguments)


def _columns(names: list[str], rows: list[list[str]]) -> Iterator[Column]:
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        filled = [cell for cell in cells if cell.strip()]
        yield Column(name, filled, len(cells) - len(filled))


def _records(path: Path, source: str) -> Found | None:
    with path.open(encoding="utf-8") as file:
        try:
            records = [json.loads(line) for line in islice(file, ROWS)]
        except ValueError:
            return None
    if not records or not all(isinstance(record, dict) for record in records):
        return None
    rows = [[str(record.get(name, "")) for name in records[0]] for record in records]
    labelled = _labelled(list(_columns([*records[0]], rows)))
    return _texts(f"{len(rows):,} records", *labelled, source) if labelled else None


def _labelled(columns: list[Column]) -> tuple[Column, Column] | None:
    """The column of texts and that of labels, where these are what the table is about."""
    prose = [column for column in columns if column.is_prose]
    others = [column for column in columns if not column.is_prose and column.values > 1]
    labels = [column for column in others if 2 * column.values <= len(column.cells)]
    return (prose[0], labels[-1]) if len(prose) == 1 and len(labels) == len(others) == 1 else None


def _texts(size: str, text: Column, label: Column, source: str) -> Found:
    words = [f"{size}: texts in {text.name}, {label.values:,} classes in {label.name}"]
    names = [f"data.text={text.name}", f"data.label={label.name}"]
    return Found(words, "labelled texts", [source, *names])
