"""Looks at one file: which kind of data it holds, by its ending and its first bytes."""

import json
from pathlib import Path

from ddpgen.asking import images, parquet, records, tables, texts
from ddpgen.asking.found import ROWS, Found, number
from ddpgen.errors import DdpgenError, show

RECORDS = (".csv", ".tsv", ".jsonl", ".parquet")  # of texts with labels
SIZE = ["data.image_size=64", "data.flip=true"]  # for images, until the user knows better
OF_FAMILY = {"resnet": ["data.channels=3"], "vision": ["model.patch=8"]}
COLUMN = "messages"  # in which conversations are looked for, where nothing else is said


def in_images(source: Path) -> Found | None:
    """Images in a folder, or in one file or several."""
    found = images.in_shards(source) or (images.in_folders(source) if source.is_dir() else None)
    return found and Found([found.words], "images", [*found.arguments, *SIZE], OF_FAMILY)


def look_at_file(path: Path) -> Found | None:
    """What one file holds; nothing where no family reads it, or where it is a pattern.

    Raises:
        DdpgenError: there is no such file, or it would be refused.
    """
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
            return tokens(f"a file of tokens, {path.stat().st_size:,} bytes", path)
        case ".jsonl" | ".json":
            return _records(path, source)
        case ".tar" | ".parquet":
            return in_images(path) or (
                _parquet(path, source) if path.suffix == ".parquet" else None
            )
        case ".csv" | ".tsv":
            return tables.read(path, source)
        case ".gz" | ".bz2" if Path(path.stem).suffix in (".csv", ".tsv"):
            return tables.read(path, source)
    return None


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


def tokens(words: str, path: Path) -> Found:
    """Files of tokens, of which only the user knows what the numbers mean."""
    more = "say their type and the tokenizer's size: data.token_dtype, data.vocabulary"
    return Found([words, more], "text", [f"data.source={path.absolute()}"])


def _records(path: Path, source: str) -> Found | None:
    """Texts with labels; conversations; or texts alone, which are for the same family."""
    found = records.read(path, ROWS)
    if not found:
        return None
    if chat := records.column_of_conversations(found):
        return _conversations([f"{len(found):,} conversations in {chat}"], chat, source)
    names = [name for name in found[0] if not any(isinstance(r.get(name), dict) for r in found)]
    rows = [[_text(record.get(name)) for name in names] for record in found]
    columns = list(tables.columns_of(names, rows))
    pair = records.pair_of(found)
    labelled = texts.text_and_label(columns) if path.suffix in RECORDS else None
    if labelled and (not pair or labelled.label.name in pair):
        return texts.labelled_texts(f"{len(rows):,} records", labelled, source)
    if pair:
        words = f"{len(found):,} conversations of {' and '.join(pair)}"
        return _conversations([words], COLUMN, source)
    prose = [column for column in columns if column.is_prose]
    if (chosen := texts.alone(prose)) is None:
        return None
    words = f"{len(found):,} texts in {chosen.name}"
    return _conversations([words, *texts.choice(prose, chosen)], chosen.name, source)


def _conversations(words: list[str], column: str, source: str) -> Found:
    more = [f"data.column={column}"] if column != COLUMN else []
    return Found(words, "conversations", [source, *more])


def _text(value: object) -> str:
    return "" if value is None else str(value)
