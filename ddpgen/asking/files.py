"""Looks at one file: which kind of data it holds, by its ending and its first bytes."""

import json
from pathlib import Path
from typing import Any

from ddpgen.asking import (
    foreign_lines,
    formats,
    image_shards,
    images,
    parquet,
    records,
    tables,
    texts,
    trees,
    wrapped,
)
from ddpgen.asking.column import Column
from ddpgen.asking.found import ROWS, Found, number, option
from ddpgen.errors import DdpgenError, show

RECORDS = (".csv", ".tsv", ".jsonl", ".parquet")  # of texts with labels
SIZE = ["data.image_size=64", "data.flip=true"]  # for images, until the user knows better
OF_FAMILY = {"resnet": ["data.channels=3"], "vision": ["model.patch=8"]}
COLUMN = "messages"  # in which conversations are looked for, where nothing else is said


def in_images(source: Path) -> Found | None:
    """Images in a folder, or in one file or several."""
    found = image_shards.in_shards(source) or (
        images.in_folders(source) if source.is_dir() else None
    )
    return found and Found(
        [found.words, *found.more], "images", [*found.arguments, *SIZE], OF_FAMILY
    )


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
    formats.refuse(path)
    match path.suffix.lower():
        case ending if ending in formats.PLAIN:
            if ending == ".txt" and formats.is_table(path):
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
    """Conversations, texts, or a table, by what stands at the file's end."""
    file = parquet.read(path)
    names = [column.name for column in file.columns]
    trees.refuse(path, names)
    whole = [column.name for column in file.columns if column.text]
    others = [name for name in names if name not in whole]
    words = [f"{number(file.rows, 'row')}, {number(len(names), 'column')}: {', '.join(names)}"]
    if chat := [column.name for column in file.columns if _holds_turns(column)]:
        said = f"{number(file.rows, 'conversation')} in {chat[0]}"
        return _conversations([said], chat[0], source)
    if pair := records.pair_in(whole):
        said = f"{number(file.rows, 'conversation')} of {' and '.join(pair)}"
        return _conversations([said], COLUMN, source)
    if labelled := _of_hub(file) or texts.by_names(whole, others):
        return Found(words, "labelled texts", [source, *texts.named(*labelled)])
    if text := texts.alone_by_names(whole, others):
        return _conversations([f"{number(file.rows, 'text')} in {text}"], text, source)
    tables.refuse_twice(path, names)
    if target := next((n for word in tables.TARGETS for n in names if n.lower() == word), ""):
        words.append(f"to predict, by its name: {target}")
        return Found(words, "rows", [source, option("data.target", target)])
    return Found([*words, "name the column to predict with data.target"], "rows", [source])


def _holds_turns(column: parquet.Column) -> bool:
    """Whether it is a list of who speaks and what is said."""
    inside = column.parts
    while len(inside) == 1:
        inside = inside[0].parts
    return records.is_turn([part.name for part in inside])


def _of_hub(file: parquet.Parquet) -> tuple[str, str] | None:
    """The columns of texts and classes, where the notes of Hugging Face tell."""
    try:
        about = json.loads(file.notes.get("huggingface", b"{}"))["info"]["features"]
        features = [(name, about[name]) for name in about if isinstance(about[name], dict)]
    except (ValueError, LookupError, TypeError):
        return None
    classes = [name for name, feature in features if "names" in feature]
    found = [name for name, feature in features if feature.get("dtype") == "string"]
    return (found[0], classes[0]) if len(classes) == len(found) == 1 else None


def tokens(words: str, path: Path) -> Found:
    """Files of tokens, of which only the user knows what the numbers mean."""
    more = "say their type and the tokenizer's size: data.token_dtype, data.vocabulary"
    return Found([words, more], "text", [f"data.source={path.absolute()}"])


def _records(path: Path, source: str) -> Found | None:
    """Texts with labels; conversations; or texts alone, which are for the same family."""
    wrapped.refuse(path)
    found = records.read(path, ROWS)
    if not found:
        return None
    trees.refuse(path, found[0])
    wrapped.refuse_answers(path, found)
    if chat := records.column_of_conversations(found):
        said = [f"{len(found):,} conversations in {chat}", *records.about_preferences(found)]
        return _conversations(said, chat, source)
    if records.about_preferences(found):
        raise DdpgenError(
            f"--data {show(str(path))}: training on preferences (DPO) is not there",
            remedy="to learn the chosen answers, call the column chosen completion",
        )
    columns = columns_of_records(found)
    pair = records.pair_of(found)
    labelled = texts.text_and_label(columns)
    if labelled and (not pair or labelled.label.name in pair):
        _refuse_list(path)
        records.refuse_several(path, found, (labelled.text.name, labelled.label.name))
        return texts.labelled_texts(f"{len(found):,} records", labelled, source)
    if pair:
        words = f"{len(found):,} conversations of {' and '.join(pair)}"
        return _conversations([words], COLUMN, source)
    prose = [column for column in columns if column.is_prose]
    if (chosen := texts.alone(prose)) is None:
        return None
    words = f"{len(found):,} texts in {chosen.name}"
    return _conversations([words, *texts.choice(prose, chosen)], chosen.name, source)


def columns_of_records(found: list[dict[str, Any]]) -> list[Column]:
    """The columns that hold no objects."""
    names = [name for name in found[0] if not any(isinstance(r.get(name), dict) for r in found)]
    rows = [[_text(record.get(name)) for name in names] for record in found]
    return list(tables.columns_of(names, rows))


def _refuse_list(path: Path) -> None:
    """Refuse texts with labels in a list of JSON: only `causal-lm` reads such, without labels."""
    if path.suffix.lower() == ".json":
        table = f"{path.stem}.csv"
        how = f"these lines of Python write a table, then: --data {table}"
        raise DdpgenError(
            f"--data {show(str(path))}: texts with labels are read from .csv, .jsonl and .parquet",
            remedy="\n  ".join([how, *foreign_lines.of_records(path, table)]),
        )


def _conversations(words: list[str], column: str, source: str) -> Found:
    more = [option("data.column", column)] if column != COLUMN else []
    return Found(words, "conversations", [source, *more])


def _text(value: object) -> str:
    return "" if value is None else str(value)
