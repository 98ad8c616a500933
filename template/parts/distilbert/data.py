"""Labelled texts, tokenised once: from CSV or JSON lines, or the standard library's docstrings."""

import ast
import csv
import hashlib
import json
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of a text that does not count: padding
POSITIONS = 512  # that DistilBERT tells apart
TOPICS = {  # modules of the standard library whose docstrings are about the topic
    "concurrency": "asyncio multiprocessing threading concurrent subprocess queue selectors sched",
    "files": "tarfile zipfile pathlib shutil os posixpath ntpath tempfile glob gzip _pyio",
    "language": "importlib inspect pkgutil typing ast dis enum dataclasses functools contextlib",
    "mail": "email mailbox smtplib imaplib poplib mimetypes quopri base64",
    "numbers": "_pydecimal fractions statistics random datetime _pydatetime calendar zoneinfo",
    "testing": "unittest doctest pdb bdb trace timeit pstats traceback tracemalloc warnings cmd",
    "text": "logging argparse optparse configparser json csv difflib textwrap string gettext",
    "web": "http urllib socketserver ftplib xmlrpc socket ssl wsgiref ipaddress html xml",
}


class Batch(NamedTuple):
    inputs: Tensor  # [B, length] int64, token ids, padded at the end
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    classes: int
    vocabulary: int
    length: int
    padding: int  # the token id that stands for nothing
    weights: str  # folder of the pretrained network; empty: from scratch
    tokenizer: str  # its folder
    labels: list[str] = field(repr=False)  # of the classes


class Texts(Dataset[Batch]):
    """Tokens of one split, mapped into memory and indexed by a whole batch at a time."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        return Batch(self.inputs[rows].long(), self.targets[rows])


class Splits(NamedTuple):
    train: Texts
    val: Texts
    shape: Shape


class Row(NamedTuple):
    text: str
    label: str


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Write tokenizer, tokens and pretrained weights, once per node.

    Raises ConfigError for texts longer than DistilBERT has positions for.
    """
    if not 2 <= cfg.length <= POSITIONS:
        raise config.ConfigError(f"data.length = {cfg.length} must be from 2 to {POSITIONS}")
    target = prepared_path(cfg)
    if target.exists():
        return
    import transformers  # only needed here, where the data is prepared

    train, val = _read_splits(cfg)
    if not (train and val):
        found = f"{len(train)} texts for training and {len(val)} for validation"
        raise config.ConfigError(f"data.source = {cfg.source!r} has {found}: both are needed")
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    if cfg.pretrained:
        tokenizer = transformers.AutoTokenizer.from_pretrained(cfg.pretrained)
        weights = transformers.DistilBertModel.from_pretrained(cfg.pretrained)
        weights.save_pretrained(partial / "weights")
    else:
        tokenizer = _train_tokenizer([row.text for row in train], cfg.vocabulary)
    tokenizer.save_pretrained(partial / "tokenizer")
    classes = sorted({row.label for row in train + val})
    prepared = {
        "classes": classes,
        "vocabulary": len(tokenizer),
        "padding": tokenizer.pad_token_id,
        "train": _encode(train, tokenizer, classes, cfg.length),
        "val": _encode(val, tokenizer, classes, cfg.length),
    }
    torch.save(prepared, partial / "tokens.pt")
    partial.replace(target)  # the folder appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Map the prepared tokens into memory."""
    folder = prepared_path(cfg)
    prepared = torch.load(folder / "tokens.pt", weights_only=True, mmap=True)
    shape = Shape(
        classes=len(prepared["classes"]),
        vocabulary=prepared["vocabulary"],
        length=cfg.length,
        padding=prepared["padding"],
        weights=str(folder / "weights") if cfg.pretrained else "",
        tokenizer=str(folder / "tokenizer"),
        labels=prepared["classes"],
    )
    return Splits(Texts(*prepared["train"]), Texts(*prepared["val"]), shape)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tokens; an edited file, or another setting, has another place."""
    source = Path(cfg.source)
    files = sorted(source.glob("*.*")) if source.is_dir() else [source]
    stats = [path.stat() for path in files if path.is_file()]
    versions = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    split = (cfg.source, cfg.text, cfg.label, cfg.validation, cfg.split_seed, versions)
    key = repr((*split, cfg.pretrained, cfg.vocabulary, cfg.length))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _read_splits(cfg: config.Data) -> tuple[list[Row], list[Row]]:
    """Training and validation rows: of two files, or of one set that is divided by chance."""
    source = Path(cfg.source)
    if source.is_dir():
        train, val = (_read_file(_find(source, name), cfg) for name in ("train", "val"))
        return train, val
    rows = list(_read_stdlib()) if cfg.source == "stdlib" else _read_file(source, cfg)
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order: list[int] = torch.randperm(len(rows), generator=generator).tolist()
    held_out = max(1, round(cfg.validation * len(rows)))
    return [rows[i] for i in order[held_out:]], [rows[i] for i in order[:held_out]]


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv", folder / f"{name}.jsonl"):
        if path.is_file():
            return path
    raise config.ConfigError(f"{folder} holds neither {name}.csv nor {name}.jsonl")


def _read_file(path: Path, cfg: config.Data) -> list[Row]:
    if not path.is_file():
        raise config.ConfigError(
            f"data.source = {cfg.source!r}: neither 'stdlib' nor a .csv or .jsonl file"
        )
    rows = read_table(path, [cfg.text, cfg.label])
    return [Row(str(row[cfg.text]), str(row[cfg.label])) for row in rows]


def read_table(path: Path, columns: list[str]) -> list[dict[str, Any]]:
    """The records of a file. Raises ConfigError for the first that lacks one of the columns."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table: list[Any]
            table = list(csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file))
    except (OSError, ValueError, csv.Error) as error:
        raise config.ConfigError(f"{path} is no .csv or .jsonl file in UTF-8: {error}") from error
    for place, row in enumerate(table, start=1):
        if not isinstance(row, dict):
            raise config.ConfigError(f"{path}: record {place} is no object with names: {row!r}")
        missing = [name for name in columns if row.get(name) is None]
        if missing:
            raise config.ConfigError(
                f"{path}: record {place} has no {missing[0]!r}; its columns are "
                f"{sorted(map(str, row))}: set data.text and data.label"
            )
    return table


def _read_stdlib() -> Iterator[Row]:
    """Paragraphs of docstrings, equally many of each topic, each once."""
    paragraphs = {topic: _paragraphs(modules.split()) for topic, modules in TOPICS.items()}
    count = min(map(len, paragraphs.values()))
    for topic, texts in paragraphs.items():
        generator = torch.Generator().manual_seed(0)
        for place in torch.randperm(len(texts), generator=generator)[:count].tolist():
            yield Row(texts[place], topic)


def _paragraphs(modules: list[str]) -> list[str]:
    root = Path(sysconfig.get_path("stdlib"))
    found: dict[str, None] = {}  # a set that keeps the order, which must be the same on every node
    for module in modules:
        for path in [root / f"{module}.py", *sorted((root / module).rglob("*.py"))]:
            if path.is_file():
                for node in ast.walk(ast.parse(path.read_bytes())):
                    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                        text = ast.get_docstring(node) or ""
                        found.update((part, None) for part in text.split("\n\n") if len(part) >= 40)
    return list(found)


def _train_tokenizer(texts: list[str], vocabulary: int) -> Any:
    """Pairs of bytes, merged as often as `vocabulary` allows.

    Not BERT's own WordPiece: its training gives other numbers each time, but every node prepares
    for itself and must come to the same.
    """
    import tokenizers
    import transformers

    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    pairs = tokenizers.ByteLevelBPETokenizer(lowercase=True, add_prefix_space=True)
    pairs.train_from_iterator(
        texts, vocabulary, show_progress=False, special_tokens=list(special.values())
    )
    ends = [(token, pairs.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    pairs.post_processor = tokenizers.processors.BertProcessing(*ends)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=pairs._tokenizer, **special)


def encode(texts: list[str], tokenizer: Any, length: int) -> Tensor:
    """Token ids [texts, length] int32, cut or padded at the end."""
    options = {"truncation": True, "max_length": length, "padding": "max_length"}
    ids: Tensor = tokenizer(texts, return_tensors="pt", **options)["input_ids"]
    return ids.int()


def _encode(
    rows: list[Row], tokenizer: Any, classes: list[str], length: int
) -> tuple[Tensor, Tensor]:
    """Tokens as `encode` gives them, and targets [rows] int64."""
    numbers = {label: number for number, label in enumerate(classes)}
    targets = torch.tensor([numbers[row.label] for row in rows])
    return encode([row.text for row in rows], tokenizer, length), targets
