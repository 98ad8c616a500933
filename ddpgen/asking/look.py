"""Looks at what somebody wants to train on: which family fits, and how train.py is told.

Only the standard library reads here, and little of each file: the project itself reads all of it,
and is strict. What is proposed here is a beginning.
"""

import csv
import json
import zlib
from collections.abc import Iterable
from pathlib import Path

from ddpgen.asking import images, parquet, records, tables
from ddpgen.asking.column import text_and_label
from ddpgen.asking.found import ROWS, Found, labelled_texts, number
from ddpgen.errors import DdpgenError, show

TABLES = {".csv", ".tsv", ".parquet"}
RECORDS = (".csv", ".tsv", ".jsonl", ".parquet")  # of texts with labels
SIZE = ["data.image_size=64", "data.flip=true"]  # for images, until the user knows better
OF_FAMILY = {"resnet": ["data.channels=3"], "vision": ["model.patch=8"]}
COLUMN = "messages"  # in which conversations are looked for, where nothing else is said
KNOWN = (
    "known are images in one folder per class or in .tar and .parquet files, tables (.csv, "
    ".parquet), texts with labels (.csv, .jsonl, .parquet), conversations (.jsonl, .json), texts "
    "(.txt) and tokens (.bin); for all else: --data model=custom"
)


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
        found = found or _look_at_pattern(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = "is not text in UTF-8: save the file in UTF-8"
        raise DdpgenError(f"--data {show(str(path))}: {reason}") from error
    if found is None:
        reason = "nothing that a family reads"
        reason = (images.misplaced(path) if path.is_dir() else _no_family(path)) or reason
        raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy=KNOWN)
    return found


def _no_family(file: Path) -> str:
    match file.suffix.lower():
        case ".gz" | ".tgz" | ".bz2" | ".xz" | ".zst" | ".zip":
            return "is compressed: unpack it"
        case ".xls" | ".xlsx" | ".ods":
            return "is a spreadsheet: save the table as CSV in UTF-8"
        case ".jsonl" | ".json":
            return (
                "records without conversations, without a question and its answer, and without one "
                "column of texts: write other columns as a table"
            )
    return ""


def _look_in_folder(folder: Path) -> Found | None:
    source = f"data.source={folder.absolute()}"
    if found := _images(folder) or _split_records(folder, source):
        return found
    if tokens := _count(folder.glob("*"), {".bin"}):
        return _tokens(number(tokens, "file", "of tokens"), source)
    if tables := [path for path in sorted(folder.glob("*")) if path.suffix in TABLES]:
        return _tables(tables)
    if lines := sorted(folder.glob("*.jsonl")):
        found = _look_at_file(lines[0])
        return found and found._replace(arguments=[source, *found.arguments[1:]])
    if texts := _count(folder.rglob("*"), {".txt"}):
        return Found([number(texts, "text")], "text", [source])
    return None


def _look_at_pattern(path: Path) -> Found | None:
    """Files that a pattern names, of which only tables are read."""
    if not (files := sorted(path.parent.glob(path.name))) or path.exists():
        return None
    found = _tables(files) if files[0].suffix in TABLES else None
    if not found or found.kind != "rows":
        raise DdpgenError(
            f"--data {show(str(path))}: only tables are read by a pattern",
            remedy=f"give the folder: --data {show(str(path.parent))}",
        )
    return found._replace(arguments=[f"data.source={path.absolute()}", *found.arguments[1:]])


def _images(source: Path) -> Found | None:
    found = images.in_shards(source) or (images.in_folders(source) if source.is_dir() else None)
    return found and Found([found.words], "images", [*found.arguments, *SIZE], OF_FAMILY)


def _split_records(folder: Path, source: str) -> Found | None:
    """Texts with labels in files of the training split."""
    patterns = ("train.*", "train-*.*", "data/train-*.*")
    found = sorted(path for pattern in patterns for path in folder.glob(pattern))
    found = [path for path in found if path.suffix in RECORDS]
    inside = _look_at_file(found[0]) if found else None
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
        if any(path.parent.glob(path.name)):
            return None
        raise DdpgenError(
            f"--data {show(str(path))}: there is no such file or folder",
            remedy="an answer is written key=value",
        )
    match path.suffix.lower():
        case ".txt":
            if tables.has_tabs(path):
                return tables.read(path, source)
            return Found([f"a text of {path.stat().st_size:,} bytes"], "text", [source])
        case ".bin":
            return _tokens(f"a file of tokens, {path.stat().st_size:,} bytes", source)
        case ".jsonl" | ".json":
            return _records(path, source)
        case ".tar" | ".parquet":
            return _images(path) or (_parquet(path, source) if path.suffix == ".parquet" else None)
        case ".csv" | ".tsv":
            return tables.read(path, source)
        case ".gz" | ".bz2" if Path(path.stem).suffix in (".csv", ".tsv"):
            return tables.read(path, source)
    return None


def _count(paths: Iterable[Path], endings: set[str]) -> int:
    return sum(path.suffix.lower() in endings and path.is_file() for path in paths)


def _parquet(path: Path, source: str) -> Found:
    """A table, or conversations, by what stands at the file's end."""
    file = parquet.read(path)
    names = [column.name for column in file.columns]
    if COLUMN in names and file.columns[names.index(COLUMN)].parts:
        return Found(
            [f"{number(file.rows, 'conversation')} in {COLUMN}"], "conversations", [source]
        )
    words = [f"{number(file.rows, 'row')}, {number(len(names), 'column')}: {', '.join(names)}"]
    if labelled := _text_and_label(file):
        return Found(words, "labelled texts", [source, *labelled])
    return Found([*words, "name the column to predict with data.target"], "rows", [source])


def _text_and_label(file: parquet.Parquet) -> list[str]:
    """The columns of texts and classes, where the notes of Hugging Face or usual names tell."""
    try:
        about = json.loads(file.notes.get("huggingface", b"{}"))["info"]["features"]
        features = [(name, about[name]) for name in about if isinstance(about[name], dict)]
        classes = [name for name, feature in features if "names" in feature]
        texts = [name for name, feature in features if feature.get("dtype") == "string"]
    except (ValueError, LookupError, TypeError, AttributeError):
        classes = texts = []
    if not len(classes) == len(texts) == 1:
        if not {"text", "label"} <= {column.name for column in file.columns}:
            return []
        texts, classes = ["text"], ["label"]
    return [f"data.text={texts[0]}", f"data.label={classes[0]}"]


def _tokens(words: str, source: str) -> Found:
    more = "say their type and the tokenizer's size: data.token_dtype, data.vocabulary"
    return Found([words, more], "text", [source])


def _records(path: Path, source: str) -> Found | None:
    """Texts with labels; conversations; or texts alone, which are for the same family."""
    found = records.read(path, ROWS)
    if not found:
        return None
    if chat := records.column_of_conversations(found):
        return _conversations(f"{len(found):,} conversations in {chat}", chat, source)
    names = [*found[0]]
    rows = [[str(record.get(name, "")) for name in names] for record in found]
    columns = list(tables.columns_of(names, rows))
    if path.suffix in RECORDS and (labelled := text_and_label(columns)):
        return labelled_texts(f"{len(rows):,} records", *labelled, source)
    if pair := records.pair_of(found):
        return _conversations(f"{len(found):,} conversations of {pair}", COLUMN, source)
    prose = [column.name for column in columns if column.is_prose]
    if len(prose) != 1:
        return None
    return _conversations(f"{len(found):,} texts in {prose[0]}", prose[0], source)


def _conversations(words: str, column: str, source: str) -> Found:
    more = [f"data.column={column}"] if column != COLUMN else []
    return Found([words], "conversations", [source, *more])
