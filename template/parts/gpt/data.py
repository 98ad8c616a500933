"""Windows of tokens, from files that are mapped into memory, as a stream for all ranks."""

import hashlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import config
import corpus
from corpus import Tokens

UNIT = "tokens"  # of the throughput
IGNORE = -100  # the target of a token that does not count: padding


class Batch(NamedTuple):
    inputs: Tensor  # [B, window] int64
    targets: Tensor  # [B, window] int64, the inputs' successors


@dataclass(frozen=True)
class Shape:
    vocabulary: int
    words: str
    names: list[str] = field(default_factory=list)  # of tokenizer and tokens: a run keeps to them

    def __str__(self) -> str:
        return self.words


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def cut(tokens: Tokens, starts: Tensor, window: int) -> Batch:
    """The windows at `starts` [B]; what lies behind the end gets the target IGNORE."""
    places = starts[:, None] + torch.arange(window + 1)
    cutout = tokens.read(places.clamp(max=len(tokens) - 1))
    targets = torch.where(places[:, 1:] < len(tokens), cutout[:, 1:], IGNORE)
    return Batch(cutout[:, :-1], targets)


@dataclass(frozen=True)
class RandomWindows:
    """The training split: every epoch draws new windows, at any place. TokenStream reads it."""

    tokens: Tokens
    window: int
    windows: int  # per epoch

    def __len__(self) -> int:
        return self.windows


class ConsecutiveWindows(Dataset[Batch]):
    """The validation split: all of its tokens, in windows side by side, each predicted once."""

    def __init__(self, tokens: Tokens, window: int) -> None:
        self.tokens, self.window = tokens, window

    def __len__(self) -> int:
        return -(-(len(self.tokens) - 1) // self.window)

    def __getitems__(self, indices: list[int]) -> Batch:
        starts = torch.tensor(indices) * self.window
        return cut(self.tokens, starts, self.window)


class TokenStream(IterableDataset[Batch]):
    """One stream of random windows per epoch, shared out over ranks and their DataLoader workers.

    The stream follows from (seed, epoch) alone. Micro-batch j of rank r takes its places
    [(j * world_size + r) * micro_batch, + micro_batch): no two ranks or workers read the same, and
    the n-th global batch is the same whatever the world size. Behind the epoch's end the places
    are filled up with windows that do not count, so that all ranks have equal shapes.
    It yields whole batches: give the DataLoader `batch_size=None`.
    """

    def __init__(
        self, split: RandomWindows, seed: int, rank: int, world_size: int, micro_batch: int
    ) -> None:
        self.split, self.seed, self.micro_batch = split, seed, micro_batch
        self.rank, self.world_size = rank, world_size
        self.micro_batches = -(-len(split) // (micro_batch * world_size))  # of each rank, per epoch
        # Epoch, and samples of all ranks that were seen. In shared memory, because persistent
        # workers keep the copy of this object that they were started with.
        self.place = RawArray("q", 2)

    def start(self, epoch: int, seen: int = 0) -> None:
        """Choose what comes next: the rest of `epoch` after the `seen` samples of all ranks."""
        self.place[:] = [epoch, seen]

    def __iter__(self) -> Iterator[Batch]:
        epoch, seen = self.place[:]
        first = seen // (self.micro_batch * self.world_size)
        info = get_worker_info()
        # The loader asks its workers in turn, so this keeps the order of the stream.
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        tokens = self.split.tokens
        starts = self._starts(epoch, len(tokens))
        for micro_batch in range(first + worker, self.micro_batches, workers):
            begin = (micro_batch * self.world_size + self.rank) * self.micro_batch
            chosen = starts[begin : begin + self.micro_batch]
            yield cut(tokens, chosen, self.split.window)

    def _starts(self, epoch: int, size: int) -> Tensor:
        """Where the windows of an epoch start: 8 bytes for each, drawn by every worker alike."""
        digest = hashlib.blake2b(repr((self.seed, epoch)).encode(), digest_size=4).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
        starts = torch.randint(size - self.split.window, (len(self.split),), generator=generator)
        filled_up = self.micro_batches * self.world_size * self.micro_batch
        padding = torch.full((filled_up - len(starts),), size)  # behind the end: nothing counts
        return torch.cat((starts, padding))


class Splits(NamedTuple):
    train: RandomWindows
    val: ConsecutiveWindows
    shape: Shape


def prepare(cfg: config.Data) -> None:
    """Write the tokens of texts, and which tokens each split has, once per node."""
    target = prepared_path(cfg)
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    try:
        corpus.prepare(cfg, partial)
    except config.ConfigError:
        shutil.rmtree(partial)
        raise
    partial.replace(target)  # the folder appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Look the prepared files up; their tokens are read when batches are asked for.

    Raises ConfigError where a split is shorter than one window.
    """
    train, val, words, names = corpus.open_prepared(prepared_path(cfg))
    for name, tokens in (("training", train), ("validation", val)):
        if len(tokens) <= cfg.window:
            raise config.ConfigError(
                f"data.source = {cfg.source!r}: the {name} split has {len(tokens)} tokens, which "
                f"is not more than data.window = {cfg.window}"
            )
    return Splits(
        RandomWindows(train, cfg.window, cfg.windows_per_epoch),
        ConsecutiveWindows(val, cfg.window),
        Shape(cfg.vocabulary, words, names),
    )


def prepared_path(cfg: config.Data) -> Path:
    """The place of what is prepared; edited files, other settings or programs have another."""
    chosen = (cfg.source, cfg.pattern, cfg.validation, cfg.tokenizer, cfg.end_of_text)
    program = (Path(corpus.__file__).read_bytes(), version("tokenizers"))
    key = repr((*chosen, cfg.token_dtype, cfg.vocabulary, _versions(cfg), program))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _versions(cfg: config.Data) -> list[tuple[str, int, int]]:
    """Path, size and time of every file; of the standard library, its version stands for all."""
    tokenizer = [Path(cfg.tokenizer)] if Path(cfg.tokenizer).is_file() else []
    if cfg.source == "stdlib":
        return [(sys.version, 0, 0), *map(_version, tokenizer)]
    return [_version(path) for path in (*tokenizer, *corpus.find_files(cfg))]


def _version(path: Path) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path), stat.st_size, stat.st_mtime_ns
