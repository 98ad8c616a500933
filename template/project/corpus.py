"""The tokens of a corpus: texts as bytes or by a tokenizer, or files of numbers as they lie."""

import codecs
import hashlib
import json
import os
import re
import sys
import sysconfig
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

import config

# Folders of the standard library that hold other packages, tests, or text that was generated.
PACKAGES = {"site-packages", "dist-packages"}
LEFT_OUT = PACKAGES | {"test", "tests", "idle_test", "encodings", "pydoc_data"}
INDEX = "index.json"
VALIDATION = {"val", "valid", "validation", "dev"}  # in the name of what is held out
TRAINING, TEST = {"train", "training"}, {"test", "testing"}  # beside train, test is left out
SIGNED = {"uint16": "int16", "uint32": "int32"}  # of the same width
# Files that begin with 256 numbers of 32 bits, of which the first is this one: those of llm.c.
HEADER = 1024  # bytes
HEADED = {20240520: "uint16", 20240801: "uint32"}
# How files of other programs begin. Two bytes alone would be a token of 16 bits.
ARCHIVES = (b"PK\x03\x04", b"\x93NUMPY", b"\x80\x02\x8a\n", b"\x1f\x8b\x08")
NO_TOKENS = (*ARCHIVES, b"PAR1", b"GGUF", b"\x89PNG", b"version ")  # the last one: Git LFS
FEWEST_HALVES = 50  # that are all 0, for a suspicion
BLOCK = 2**20  # characters that a thread of the tokenizer takes at once
BLOCKS = 64
PROBES = 1000  # tokens of a split that enter into its name
PATIENCE = 10  # seconds between words about progress


class Piece(NamedTuple):
    """A range of a file, in tokens."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class Tokens:
    """One stream that lies in ranges of files. It travels to workers as their paths."""

    dtype: str
    pieces: list[Piece]

    def __len__(self) -> int:
        return sum(piece.end - piece.begin for piece in self.pieces)

    def read(self, places: Tensor) -> Tensor:
        """The tokens at `places`, as int64 and in the same shape; only these are loaded."""
        sizes = torch.tensor([piece.end - piece.begin for piece in self.pieces])
        ends = sizes.cumsum(0)
        numbers = torch.bucketize(places, ends, right=True)
        found = torch.empty_like(places)
        for number in numbers.flatten().bincount().nonzero().flatten().tolist():
            piece, here = self.pieces[number], numbers == number
            inside = places[here] - (ends[number] - sizes[number]) + piece.begin
            found[here] = _numbers(_map(piece.path, self.dtype, piece.end)[inside], self.dtype)
        return found


class Files(NamedTuple):
    """The files of a source, by their names and those of the folders that they lie in."""

    rest: list[Path]
    held_out: list[Path]
    left_out: list[str]


class Corpus(NamedTuple):
    train: Tokens
    val: Tokens
    words: str  # what it is made of, for people
    names: list[str]  # of tokenizer and tokens: they follow from their content


@cache
def _map(path: str, dtype: str, size: int) -> Tensor:
    """The first `size` tokens of a file, mapped into memory: as `_numbers` takes them.

    Up to torch 2.9 some elements of unsigned types cannot be picked, so these are read as signed.
    """
    kind = getattr(torch, SIGNED.get(dtype, dtype))
    return torch.from_file(path, shared=False, size=size, dtype=kind)


def _numbers(tokens: Tensor, dtype: str) -> Tensor:
    """Tokens of a mapped file as int64."""
    bits = 8 * getattr(torch, dtype).itemsize
    return tokens.long() & (2**bits - 1) if dtype in SIGNED else tokens.long()


def open_prepared(folder: Path) -> Corpus:
    """The content of a folder that `prepare` has written."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    train, val = ([_inside(folder, Piece(*p)) for p in index[name]] for name in ("train", "val"))
    dtype, words = index["dtype"], index["words"]
    return Corpus(Tokens(dtype, train), Tokens(dtype, val), words, index["names"])


def _inside(folder: Path, piece: Piece) -> Piece:
    """A range of a file that lies in a folder, or elsewhere by its absolute path."""
    return piece._replace(path=str(folder / piece.path))


def prepare(cfg: config.Data, folder: Path) -> None:
    """Write into a folder which tokens each split has, and the tokens of texts.

    Raises ConfigError, with the file, for what cannot be read, and for tokens outside of the
    vocabulary: a GPU would only abort.
    """
    files = divide_by_name(cfg)
    dtype, train, val = (
        _index_shards(cfg, files) if has_tokens(cfg) else _write_texts(cfg, files, folder)
    )
    for path in sorted({piece.path for piece in train + val}):
        _check_tokens(cfg, folder, path, dtype)
    sizes = [sum(piece.end - piece.begin for piece in pieces) for pieces in (train, val)]
    words = f"{sizes[0]:,} tokens of {cfg.source} for training, {sizes[1]:,} for validation"
    if files.left_out:
        words += f"; left out by name: {', '.join(files.left_out)}"
    parts = [Tokens(dtype, [_inside(folder, piece) for piece in some]) for some in (train, val)]
    names = [_name(cfg), _name_of_tokens(parts)]
    index = {"dtype": dtype, "train": train, "val": val, "words": words, "names": names}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def _name(cfg: config.Data) -> str:
    """A name of the tokenizer that follows from its content, wherever its file lies."""
    if has_tokens(cfg) or not cfg.tokenizer:
        return "tokens of files" if has_tokens(cfg) else "tokenizer of bytes"
    return f"tokenizer {hashlib.sha256(Path(cfg.tokenizer).read_bytes()).hexdigest()[:8]}"


def _name_of_tokens(splits: list[Tokens]) -> str:
    """A name that follows from the sizes of both splits and from some tokens of each."""
    found = [(len(tokens), _some(tokens).tolist()) for tokens in splits if len(tokens)]
    return f"tokens {hashlib.sha256(repr(found).encode()).hexdigest()[:8]}"


def _some(tokens: Tokens) -> Tensor:
    """Tokens at even distances, the first and the last among them."""
    return tokens.read(torch.arange(PROBES) * (len(tokens) - 1) // (PROBES - 1))


def has_tokens(cfg: config.Data) -> bool:
    """Whether the source is a file of tokens, or a folder of them."""
    source = Path(cfg.source)
    return source.suffix == ".bin" or bool(_find_shards(source))


def find_files(cfg: config.Data) -> list[Path]:
    """The files of the source: tokens by name, texts in an order that is random, but fixed."""
    source = Path(cfg.source)
    if cfg.source != "stdlib" and not source.exists():
        raise config.ConfigError(f"data.source = {cfg.source!r}: there is no such file or folder")
    files = [source] if source.is_file() else _find_shards(source) or _find_texts(cfg)
    records = {".json", ".jsonl", ".ndjson"} if source.is_file() else {".jsonl", ".ndjson"}
    for path in files:  # among many texts, such as those of programs, .json may be one
        if path.suffix.lower() in records:
            raise config.ConfigError(
                f"{path} has records, whose braces and keys would be learnt, too: a project with "
                "model=causal-lm reads their texts; named .txt, the file is learnt as it stands"
            )
    return files


def divide_by_name(cfg: config.Data) -> Files:
    """Divide several files by the words in their names, or in those of the source's folders.

    Files called val are held out, those called test left out. Among texts that counts only where
    some are called train, and all others have such a word: a text may be about a test.
    """
    files = find_files(cfg)
    base = os.path.commonpath([path.parent for path in files])
    names = {path: path.relative_to(base).parts[0] for path in files}
    words = {path: {*re.split(r"[^a-z]+", name.lower())} for path, name in names.items()}
    train = {path for path in files if words[path] & TRAINING}
    val = {path for path in files if words[path] & VALIDATION} - train
    tests = {path for path in files if words[path] & TEST} - train - val
    rest = [path for path in files if path not in val | tests]
    named = bool(rest or val) if has_tokens(cfg) else 0 < len(train) == len(rest)
    if len(files) == 1 or not named:
        return Files(files, [], [])
    left_out = sorted({names[path] for path in tests})
    return Files(rest, [path for path in files if path in val], left_out)


def _find_shards(folder: Path) -> list[Path]:
    """The files of tokens in a folder, in the order of their names."""
    return sorted(path for path in folder.glob("*.bin") if not _is_hidden(path.name))


def _is_hidden(name: str) -> bool:
    """Whether a program keeps this file or folder for itself, such as copies of the others."""
    return name.startswith(".")


def _find_texts(cfg: config.Data) -> list[Path]:
    """The texts of a folder by the hash of their path: the same order on all machines."""
    stdlib = cfg.source == "stdlib"
    root = Path(sysconfig.get_path("stdlib") if stdlib else cfg.source)
    pattern, left_out = ("**/*.py", LEFT_OUT) if stdlib else (cfg.pattern, set())
    try:
        found = [path.relative_to(root) for path in root.glob(pattern) if path.is_file()]
    except (ValueError, NotImplementedError) as error:  # empty, or not below the folder
        raise config.ConfigError(
            f"data.pattern = {pattern!r} names no files below {root}, as '**/*.txt' does: {error}"
        ) from error
    names = [name for name in found if left_out.isdisjoint(name.parts[:-1])]
    if not stdlib:
        names = [name for name in names if not any(map(_is_hidden, name.parts))]
    if len(names) < 2:
        raise config.ConfigError(
            f"data.source = {cfg.source!r} has {len(names)} files that match {pattern!r}: one is "
            "needed for training and one for validation; tokens lie in .bin files, in no folder "
            "below"
        )
    names.sort(key=lambda name: hashlib.sha256(name.as_posix().encode()).digest())
    return [root / name for name in names]


# --- Files of tokens ---


def _index_shards(cfg: config.Data, files: Files) -> tuple[str, list[Piece], list[Piece]]:
    """Files that are named so are held out, as nanoGPT's val.bin; else the end of the stream."""
    pieces = [_behind_header(path, cfg.token_dtype) for path in [*files.rest, *files.held_out]]
    for piece in pieces:
        _check_width(piece, cfg.token_dtype)
    if files.held_out:
        count = len(files.rest)
        return cfg.token_dtype, pieces[:count], pieces[count:]
    size = sum(piece.end - piece.begin for piece in pieces)
    return cfg.token_dtype, *_divide(pieces, size - round(cfg.validation * size))


def _check_width(piece: Piece, dtype: str) -> None:
    """Refuse numbers that are the halves of wider ones: small ones end with a half that is 0."""
    halves = _map(piece.path, dtype, piece.end)[piece.begin + 1 : piece.begin + 1000 : 2]
    if len(halves) >= FEWEST_HALVES and not halves.any():
        raise config.ConfigError(
            f"{piece.path}: every second number is 0, read as {dtype}: data.token_dtype is wider"
        )


def _whole(path: Path, dtype: str) -> Piece:
    """All of a file. Raises ConfigError where its size is not that of whole numbers."""
    size, width = path.stat().st_size, getattr(torch, dtype).itemsize
    if not size or size % width:
        raise config.ConfigError(
            f"{path} has {size:,} bytes, which are no numbers of type {dtype}: set "
            "data.token_dtype, or write the file anew, which may have been cut off"
        )
    return Piece(str(path.absolute()), 0, size // width)


def _behind_header(path: Path, dtype: str) -> Piece:
    """The tokens of a file. Raises ConfigError for what begins as a file of another program."""
    with path.open("rb") as file:
        begin = file.read(12)  # a header's third number is that of the tokens
    kind = HEADED.get(int.from_bytes(begin[:4], "little"))
    if begin.startswith(NO_TOKENS):
        raise config.ConfigError(f"{path} begins with {begin!r}, as no file of tokens does")
    if kind not in (None, dtype):
        raise config.ConfigError(f"{path} is a file of llm.c: set data.token_dtype={kind}")
    piece = _whole(path, dtype)
    if not kind:
        return piece
    piece = piece._replace(begin=HEADER // getattr(torch, dtype).itemsize)
    said, found = int.from_bytes(begin[8:], "little"), piece.end - piece.begin
    if said != found:
        raise config.ConfigError(
            f"{path} has {found:,} tokens, but its header says {said:,}: fetch the file anew, "
            "which may have been cut off"
        )
    return piece


def _divide(pieces: list[Piece], border: int) -> tuple[list[Piece], list[Piece]]:
    """The stream before and behind a place."""
    before, behind = [], []
    for path, begin, end in pieces:
        middle = min(max(begin + border, begin), end)
        before.append(Piece(path, begin, middle))
        behind.append(Piece(path, middle, end))
        border -= end - begin
    return [p for p in before if p.begin < p.end], [p for p in behind if p.begin < p.end]


def _check_tokens(cfg: config.Data, folder: Path, path: str, dtype: str) -> None:
    """Look at every token once: a vocabulary too small is noticed before the first step."""
    whole = _behind_header if has_tokens(cfg) else _whole
    _, begin, end = whole(folder / path, dtype)
    tokens = _map(str(folder / path), dtype, end)[begin:]
    ends = [_numbers(block, dtype).aminmax() for block in tokens.split(BLOCK)]
    least, most = min(int(end.min) for end in ends), max(int(end.max) for end in ends)
    if least < 0 or most >= cfg.vocabulary:
        where = path if has_tokens(cfg) else f"data.source = {cfg.source!r}"
        raise config.ConfigError(
            f"{where} has the token {least if least < 0 else most}, but data.vocabulary = "
            f"{cfg.vocabulary}, read as {dtype}"
        )


# --- Texts ---


def _write_texts(
    cfg: config.Data, files: Files, folder: Path
) -> tuple[str, list[Piece], list[Piece]]:
    """Join the texts of each split to a file: whole files are held out, or the end of one."""
    train, val = files.rest, files.held_out
    if not val and len(train) > 1:
        held_out = max(1, round(cfg.validation * len(train)))
        train, val = train[held_out:], train[:held_out]
    if not train:
        raise config.ConfigError(f"data.validation = {cfg.validation} leaves no text for training")
    parts = {"train.bin": train, "val.bin": val} if val else {"all.bin": train}
    tokenizer = _open_tokenizer(cfg)
    dtype = tokenizer.dtype if tokenizer else "uint8"
    pieces = []
    for name, texts in parts.items():
        with (folder / name).open("wb") as target:
            (tokenizer.write if tokenizer else _copy)(texts, target)
            if not target.tell():
                named = texts[0] if len(texts) == 1 else f"{texts[0]}, ... ({len(texts):,} files)"
                raise config.ConfigError(f"{named}: there is no text in it")
        pieces.append(_whole(folder / name, dtype)._replace(path=name))
    if len(pieces) == 2:
        return dtype, pieces[:1], pieces[1:]
    return dtype, *_divide(pieces, pieces[0].end - round(cfg.validation * pieces[0].end))


def _copy(files: Sequence[Path], target: BinaryIO) -> None:
    """The bytes of all files. Raises ConfigError for the first that is no text."""
    for path in files:
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            with path.open("rb") as part:
                while block := part.read(BLOCK):
                    _check_text(path, decoder.decode(block))
                    target.write(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise config.ConfigError(_no_text(path, error.reason)) from error


def _check_text(path: Path, text: str) -> None:
    if "\0" in text:
        raise config.ConfigError(_no_text(path, "there are bytes of zeros"))
    if text.startswith("version https://git-lfs"):
        raise config.ConfigError(f"{path} only says where the text is: git lfs pull fetches it")


def _no_text(path: Path, reason: str) -> str:
    return (
        f"{path} is no text in UTF-8: {reason}; read are texts, and tokens in files that end with "
        ".bin: save the file in UTF-8, or choose others with data.pattern"
    )


@dataclass(frozen=True)
class Tokenizer:
    """Turns texts into tokens, in all cores."""

    encode_batch: Any
    dtype: str
    end: list[int]  # what follows each text

    def write(self, files: Sequence[Path], target: BinaryIO) -> None:
        """The tokens of all files, one file behind the other."""
        said = time.monotonic()
        for number, path in enumerate(files, start=1):
            blocks = _blocks(path)
            while group := list(islice(blocks, BLOCKS)):
                for encoded in self._encode(group):
                    self._append(encoded.ids, target)
                if time.monotonic() > said + PATIENCE:
                    said, done = time.monotonic(), f"{target.tell():,} bytes of tokens, in file"
                    print(f"{done} {number:,} of {len(files):,}", file=sys.stderr, flush=True)
            self._append(self.end, target)

    def _encode(self, texts: list[str]) -> Any:
        try:
            return self.encode_batch(texts, add_special_tokens=False)
        except Exception as error:  # the library has no narrower one
            raise config.ConfigError(f"data.tokenizer cannot encode the texts: {error}") from error

    def _append(self, tokens: list[int], target: BinaryIO) -> None:
        array("H" if self.dtype == "uint16" else "i", tokens).tofile(target)


def _open_tokenizer(cfg: config.Data) -> Tokenizer | None:
    if not cfg.tokenizer:
        return None
    import tokenizers  # only needed here, where the data is prepared

    try:
        found = tokenizers.Tokenizer.from_file(cfg.tokenizer)
    except Exception as error:  # the library has no narrower one
        raise config.ConfigError(f"data.tokenizer = {cfg.tokenizer!r}: {error}") from error
    found.no_truncation()  # whatever the file says: it is made for short texts
    found.no_padding()
    size = found.get_vocab_size()
    if size > cfg.vocabulary:
        raise config.ConfigError(
            f"data.vocabulary = {cfg.vocabulary}, but {cfg.tokenizer} has {size:,} tokens"
        )
    end = found.token_to_id(cfg.end_of_text) if cfg.end_of_text else None
    if cfg.end_of_text and end is None:
        raise config.ConfigError(
            f"data.end_of_text = {cfg.end_of_text!r} is no token of {cfg.tokenizer}"
        )
    dtype = "uint16" if size <= 2**16 else "int32"
    return Tokenizer(found.encode_batch, dtype, [] if end is None else [end])


def _blocks(path: Path) -> Iterator[str]:
    """The text in parts of whole lines."""
    try:
        with path.open(encoding="utf-8") as text:
            while lines := text.readlines(BLOCK):
                _check_text(path, block := "".join(lines))
                yield block
    except UnicodeDecodeError as error:
        raise config.ConfigError(_no_text(path, error.reason)) from error
