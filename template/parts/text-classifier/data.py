"""Labelled texts, tokenised once: from files, or the standard library's docstrings."""

import ast
import csv
import hashlib
import inspect
import json
import re
import sys
import sysconfig
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config
from engine import hub, jsonl

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of a text that does not count: padding
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")  # of files with texts
VALIDATION = ("val", "valid", "validation", "dev")  # names of files that are held out
NO_LABELS = {"", "nan", "NaN", "null", "NULL", "#N/A"}  # as pandas and others write empty cells
# What others write there, and what may be a class, such as of North America.
PERHAPS_NO_LABELS = {"NA", "N/A", "n/a", "<NA>", "None", "none", "Null", "-", "?"}
WEIGHTS = ["*.json", "*.model", "*.safetensors", "*.txt"]  # what is fetched of a model
OLD_WEIGHTS = ["pytorch_model*.bin"]  # and of one that was saved long ago
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
    # Folder of the pretrained network, on this node; empty: from scratch.
    weights: str = field(compare=False)
    tokenizer: str  # its folder
    labels: list[str]  # of the classes
    before: list[str]  # classes of the pretrained head, in their order
    long: int  # texts that have `length` tokens or more
    doubts: str = field(default="", compare=False)  # about the validation
    tokens: str = ""  # the tokenizer's name
    others: list[str] = field(default_factory=list)  # names of rows and of a pretrained network

    @property
    def names(self) -> list[str]:
        """Of classes and tokenizer: the weights know labels and tokens by their numbers.

        And of rows: with others, texts that were held out would be trained on.
        """
        return [*self.labels, self.tokens, *self.others]

    @property
    def keeps_head(self) -> bool:
        """Whether the pretrained head tells these classes apart."""
        return self.before == self.labels

    def __str__(self) -> str:
        long = f"{self.long:,} texts of {self.length} tokens or more"
        words = f"{self.classes} classes, {long}{self.doubts}"
        if not self.weights:
            return words
        if self.keeps_head:
            return f"{words}; the pretrained head is kept"
        other = f", the pretrained head is for {', '.join(self.before)}" if self.before else ""
        return f"{words}; the head is new{other}"


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


class Pretrained(NamedTuple):
    """A pretrained network's folder, and what the data has to know of the network."""

    folder: str
    tokenizer: Any
    labels: list[str]  # of its head's classes; none where it has no head for classes
    known: int  # how many tokens it has vectors for; the tokenizer may have more or fewer


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Fetch the pretrained network, and write tokenizer and tokens, once per node."""
    if cfg.length < 2:
        raise config.ConfigError(f"data.length = {cfg.length} must be at least 2")
    target = prepared_path(cfg)
    if target.exists():
        return
    train, val = _in_one_spelling(*_read_splits(cfg))
    classes = _classes(cfg, train, val)
    known = open_pretrained(cfg) if cfg.pretrained else _from_scratch(cfg, train)
    labels = known.labels if sorted(known.labels) == classes else classes
    padding = known.tokenizer.pad_token_id
    encoded = [_encode(rows, known.tokenizer, labels, cfg.length) for rows in (train, val)]
    for inputs, _ in encoded:
        if unknown := hub.unknown(inputs, known.tokenizer, known.known):
            raise config.ConfigError(f"data.pretrained = {cfg.pretrained!r}: {unknown}")
    about = {
        "classes": len(labels),
        "vocabulary": known.known,
        "padding": padding,
        "weights": known.folder,
        "labels": labels,
        "before": known.labels,
        "long": sum(int((inputs[:, -1] != padding).sum()) for inputs, _ in encoded),
        "doubts": _doubts(train, val),
        "tokens": hub.name_of(known.tokenizer),
        "others": [hub.name_of_values(*encoded[0], *encoded[1])],
    }
    if known.folder:
        about["others"] += [hub.name_of_network(known.folder)]
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    known.tokenizer.save_pretrained(partial / "tokenizer")
    torch.save({"about": about, "splits": encoded}, partial / "tokens.pt")
    partial.replace(target)  # the folder appears whole


def _classes(cfg: config.Data, train: list[Row], val: list[Row]) -> list[str]:
    """The sorted labels of both splits. Raises ConfigError where they are no classes to learn."""
    if not (train and val):
        found = f"{len(train)} texts for training and {len(val)} for validation"
        raise config.ConfigError(f"data.source = {cfg.source!r} has {found}: both are needed")
    classes = sorted({row.label for row in train + val})
    if len(classes) < 2:
        raise config.ConfigError(f"data.label = {cfg.label!r} names one class only: {classes[0]!r}")
    texts = len(train) + len(val)
    if len(classes) > max(2, texts / 2):
        raise config.ConfigError(
            f"data.label = {cfg.label!r} has {len(classes)} different labels in {texts} texts, but "
            "a class has several texts: name another column, or round numbers"
        )
    return classes


def _in_one_spelling(*parts: list[Row]) -> Iterator[list[Row]]:
    """The rows, with the same label where files have 2 and 2.0, or True and true, for the same."""
    names: dict[str, str] = {}
    for label in sorted({row.label for part in parts for row in part}):
        names.setdefault(_meaning(label), label)
    for part in parts:
        yield [Row(row.text, names[_meaning(row.label)]) for row in part]


def _meaning(label: str) -> str:
    """The same for all spellings of a whole number or bool, which programs write for each other."""
    if (lower := label.strip().lower()) in ("true", "false"):
        return lower
    return re.sub(r"^\s*(-?\d+)\.0+\s*$", r"\1", label)


def _from_scratch(cfg: config.Data, train: list[Row]) -> Pretrained:
    """A new tokenizer in the place of a pretrained network's."""
    tokenizer = train_tokenizer([row.text for row in train], cfg.vocabulary)
    return Pretrained("", tokenizer, [], len(tokenizer))


def _doubts(train: list[Row], val: list[Row]) -> str:
    """Words about texts that training has seen, and about classes that nothing teaches."""
    seen = {row.text for row in train}
    taught, held_out = ({row.label for row in part} for part in (train, val))
    again = sum(row.text in seen for row in val)
    words = f"; {again:,} of the {len(val):,} texts held out are for training, too" if again else ""
    if empty := sum(not row.text.strip() for row in train + val):
        words += f"; empty texts: {empty:,}"
    if alike := _alike(sorted(taught | held_out)):
        words += f"; {' and '.join(map(repr, alike))} are different classes"
    if several := _joined(sorted(taught | held_out)):
        words += f"; {several!r} is a class of its own: a text has one class"
    if doubtful := PERHAPS_NO_LABELS & (taught | held_out):
        words += f"; {min(doubtful)!r} is a class: leave the texts out if they have no label"
    for part, absent in (("for training", held_out - taught), ("held out", taught - held_out)):
        words += f"; no text {part} is {min(absent)!r}" if absent else ""
    return words


def _alike(names: list[str]) -> list[str]:
    """The first names that differ by capitals and blanks only, or are one number."""
    found: dict[str, list[str]] = {}
    for name in names:
        plain = " ".join(unicodedata.normalize("NFC", name).casefold().split())
        found.setdefault(plain.removesuffix(".0"), []).append(name)
    return next((same for same in found.values() if len(same) > 1), [])


def _joined(names: list[str]) -> str:
    """The first name that is made of others, as of a text with several classes; or ""."""
    for name in names:
        parts = [part.strip() for part in re.split(r"[,;|]", name)]
        if len(parts) > 1 and {*parts} <= {*names}:
            return name
    return ""


def open_splits(cfg: config.Data) -> Splits:
    """Map the prepared tokens. Raises ConfigError where the pretrained network is gone."""
    folder = prepared_path(cfg)
    prepared = _load(folder)
    about = prepared["about"]
    about["weights"] = find_network(cfg, about["weights"])
    shape = Shape(length=cfg.length, tokenizer=str(folder / "tokenizer"), **about)
    train, val = (Texts(*tensors) for tensors in prepared["splits"])
    return Splits(train, val, shape)


def _load(folder: Path) -> Any:
    return torch.load(folder / "tokens.pt", weights_only=True, mmap=True)


def find_network(cfg: config.Data, folder: str, fetching: bool = False) -> str:
    """This node's copy of the network that was in `folder` where the data were prepared."""
    return hub.find(cfg.pretrained, folder, fetch, fetching)


def fetch_network(cfg: config.Data) -> None:
    """Fetch the pretrained network where this node has none, but another prepared the data."""
    find_network(cfg, _load(prepared_path(cfg))["about"]["weights"], fetching=True)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the tokens; an edited file, another setting or program has another place."""
    source = Path(cfg.source)
    files = [path for files in _files(source) for path in files]
    files += sorted(Path(cfg.pretrained).glob("*.*")) if cfg.pretrained else []
    stats = [path.stat() for path in files if path.is_file()]
    versions = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    split = (cfg.source, cfg.text, cfg.label, cfg.validation, cfg.split_seed, versions)
    program = (Path(__file__).read_bytes(), version("tokenizers"), version("transformers"))
    key = repr((*split, cfg.pretrained, cfg.vocabulary, cfg.length, program))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _read_splits(cfg: config.Data) -> tuple[list[Row], list[Row]]:
    """Training and validation rows: of files for each, or of one set that is divided by chance."""
    if cfg.source == "stdlib":
        return _divide(list(_read_stdlib()), cfg)
    files = train, held_out = _files(Path(cfg.source))
    if not train:
        raise config.ConfigError(
            f"{cfg.source} holds no file called train.csv, or train-00000.parquet and so on: name "
            f"files so, with one of the endings {', '.join(ENDINGS)}"
        )
    rows, val = ([row for path in part for row in _read_file(path, cfg)] for part in files)
    return (rows, val) if held_out else _divide(rows, cfg)


def _divide(rows: list[Row], cfg: config.Data) -> tuple[list[Row], list[Row]]:
    """Rows for training, and others that are held out, chosen by chance."""
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order: list[int] = torch.randperm(len(rows), generator=generator).tolist()
    held_out = max(1, round(cfg.validation * len(rows)))
    return [rows[i] for i in order[held_out:]], [rows[i] for i in order[:held_out]]


def _files(source: Path) -> tuple[list[Path], list[Path]]:
    """The files for training and for validation; a single file is for both."""
    if not source.is_dir():
        return [source], []
    return _find(source, "train"), _find(source, *VALIDATION)


def _find(folder: Path, *names: str) -> list[Path]:
    """The files of a split, such as train.csv, or data/train-00000-of-00002.parquet and so on."""
    found = [
        path
        for name in names
        for pattern in (f"{name}.*", f"{name}-*.*", f"data/{name}-*.*")
        for path in folder.glob(pattern)
    ]
    return sorted(path for path in found if path.suffix.lower() in ENDINGS and path.is_file())


def _read_file(path: Path, cfg: config.Data) -> list[Row]:
    if not path.exists():
        raise config.ConfigError(f"data.source = {cfg.source!r}: there is no such file or folder")
    if path.suffix.lower() not in ENDINGS:
        raise config.ConfigError(
            f"data.source = {cfg.source!r}: neither 'stdlib' nor a {', '.join(ENDINGS)} file"
        )
    rows = read_table(path, [cfg.text, cfg.label])
    for place, row in enumerate(rows, start=1):
        label = str(row[cfg.label]).strip()
        if label in NO_LABELS:
            written = f", written {label!r}" if label else ""
            raise config.ConfigError(
                f"{path}: record {place} has an empty {cfg.label!r}{written}: leave the record out"
            )
    return [Row(str(row[cfg.text]), str(row[cfg.label])) for row in rows]


def read_table(path: Path, columns: list[str]) -> list[dict[str, Any]]:
    """The records of a file.

    Raises ConfigError for the first record that lacks a column, or has several values in one cell.
    """
    try:
        is_parquet = path.suffix.lower() == ".parquet"
        table = _read_parquet(path, columns) if is_parquet else _read_lines(path)
    except (OSError, ValueError, csv.Error) as error:
        if getattr(error, "errno", None):
            raise  # of the disk; Arrow's errors of a file have no number
        kinds = ", ".join(ENDINGS)
        raise config.ConfigError(f"{path} is no file in UTF-8 of {kinds}: {error}") from error
    for place, row in enumerate(table, start=1):
        if not isinstance(row, dict):
            raise config.ConfigError(f"{path}: record {place} is no object with names: {row!r}")
        if empty := [name for name in columns if row.get(name, "") is None]:
            raise config.ConfigError(f"{path}: record {place} has no {empty[0]!r}: that is null")
        missing = [name for name in columns if name not in row]
        if missing:
            raise config.ConfigError(
                f"{path}: record {place} has no {missing[0]!r}; its columns are "
                f"{sorted(map(str, row))}: set data.text and data.label"
            )
        if nested := [name for name in columns if isinstance(row[name], list | dict)]:
            raise config.ConfigError(
                f"{path}: record {place} has {str(row[nested[0]])[:60]} in {nested[0]!r}: a record "
                "has one text, and one label per text"
            )
    return table


def _read_lines(path: Path) -> list[Any]:
    """The records of a text file, whose first line tells what stands between the columns."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            lines = enumerate(file, start=1)
            return [jsonl.line(text, f"{path}: line {n}") for n, text in lines if text.strip()]
        header = file.readline()
        if "\0" in header:
            raise ValueError("the first line has bytes of zero, as files in UTF-16 have")
        if header.startswith("version https://git-lfs"):
            raise ValueError("the file only says where the texts are: git lfs pull fetches them")
        file.seek(0)
        delimiter = max(",;\t", key=header.count)
        csv.field_size_limit(sys.maxsize)  # a text may be a book
        names, *rows = _cells(csv.reader(file, delimiter=delimiter, strict=True), path) or [[]]
    if twice := {name for name in names if name and names.count(name) > 1}:
        raise config.ConfigError(
            f"{path}: two columns are called {min(twice)!r}: give each a name of its own"
        )
    for place, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise config.ConfigError(
                f"{path}: record {place} has {len(row)} cells, the first line has {len(names)}: "
                f"put the text in quotes where it holds {delimiter!r}"
            )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _cells(reader: Iterator[list[str]], path: Path) -> list[list[str]]:
    """All rows but empty ones. Raises ConfigError for a mark that would take rows for one cell."""
    found: list[list[str]] = []
    try:
        for row in reader:
            found += [row] if row else []
    except csv.Error as error:
        raise config.ConfigError(
            f"{path}: record {len(found)} has a cell that begins with a quotation mark and does "
            'not end with one: write "" for a mark inside, and one more mark at either end (in '
            "pandas read_csv with quoting=3, then to_csv)"
        ) from error
    return found


def _read_parquet(path: Path, columns: list[str]) -> list[dict[str, Any]]:
    """The records, with the names of classes that Hugging Face's files have numbers for.

    Texts that are written as bytes, as by Spark and Impala, are in UTF-8.
    """
    import pyarrow as pa
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    for place, name in enumerate(table.column_names):
        if name in columns and table[place].type in (pa.binary(), pa.large_binary()):
            table = table.set_column(place, name, table[place].cast(pa.string()))
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    rows: list[dict[str, Any]] = table.to_pylist()
    for column, feature in about.get("info", {}).get("features", {}).items():
        if isinstance(feature, dict) and "names" in feature:
            names = dict(enumerate(feature["names"]))
            for row in rows:
                row[column] = names.get(row[column])  # -1: a row without a label
    return rows


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


def open_pretrained(cfg: config.Data) -> Pretrained:
    """Folder, tokenizer and classes of a pretrained network, which is not loaded.

    Raises ConfigError where it is no classifier of texts, or texts would not fit in.
    """
    import transformers  # only needed here, where the data is prepared

    folder = fetch(cfg.pretrained)
    hub.check_folder(folder)
    try:
        size = transformers.AutoConfig.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with torch.device("meta"):
            network = transformers.AutoModelForSequenceClassification.from_config(size)
    except Exception as error:  # of a tokenizer that is cut off; the library has no narrower one
        raise config.ConfigError(
            f"data.pretrained = {cfg.pretrained!r}: no config or no tokenizer to read: {error}"
        ) from error
    if reason := _refusal(cfg, size, tokenizer, network):
        raise config.ConfigError(f"data.pretrained = {cfg.pretrained!r}: {reason}")
    has_head = any("SequenceClassification" in name for name in size.architectures or [])
    labels = [*size.id2label.values()] if has_head else []
    return Pretrained(folder, tokenizer, labels, network.get_input_embeddings().num_embeddings)


def _refusal(cfg: config.Data, size: Any, tokenizer: Any, network: Any) -> str:
    """Why texts as the tokenizer gives them would not fit the network, or ''."""
    if tokenizer.pad_token_id is None:
        return (
            "the tokenizer has no token for padding: name one in pad_token of its "
            "tokenizer_config.json, such as its eos_token"
        )
    if "attention_mask" not in inspect.signature(network.forward).parameters:
        return f"{type(network).__name__} cannot leave padding out"
    most = positions(size, network)
    return f"the model has {most} positions, data.length is {cfg.length}" * (cfg.length > most)


def positions(size: Any, network: Any) -> int:
    """How many tokens a text may have. RoBERTa and its kin count positions from their padding's."""
    most = getattr(size, "max_position_embeddings", None) or 0
    found = most if most > 0 else sys.maxsize
    for name, part in network.named_modules():
        padding = getattr(part, "padding_idx", None)
        if name.endswith("embeddings.position_embeddings") and padding is not None:
            found = min(found, len(part.weight) - padding - 1)
    return int(found)


def fetch(name: str, **options: Any) -> str:
    """The folder of a pretrained model: as it is named, or this node's copy from the hub.

    The options are those of `snapshot_download`.
    """
    if Path(name).is_dir():
        return str(Path(name).absolute())
    import huggingface_hub

    try:
        options["allow_patterns"] = WEIGHTS
        folder = huggingface_hub.snapshot_download(name, **options)
        if not [*Path(folder).glob("*.safetensors")]:
            options["allow_patterns"] = WEIGHTS + OLD_WEIGHTS
            folder = huggingface_hub.snapshot_download(name, **options)
    except (OSError, ValueError) as error:
        first, *_ = str(error).splitlines()
        raise config.ConfigError(
            f"data.pretrained = {name!r} is no folder, and cannot be fetched by name: {first}"
        ) from error
    return str(folder)


def train_tokenizer(texts: list[str], vocabulary: int) -> Any:
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
    cut = {"truncation": True, "max_length": length}
    filled = {"padding": "max_length", "padding_side": "right"}
    ids: Tensor = tokenizer(texts, return_tensors="pt", **cut, **filled)["input_ids"]
    return ids.int()


def _encode(
    rows: list[Row], tokenizer: Any, labels: list[str], length: int
) -> tuple[Tensor, Tensor]:
    """Tokens as `encode` gives them, and targets [rows] int64."""
    numbers = {label: number for number, label in enumerate(labels)}
    targets = torch.tensor([numbers[row.label] for row in rows])
    return encode([row.text for row in rows], tokenizer, length), targets
