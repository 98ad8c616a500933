"""Bytes of text, or any tokens, in files that are mapped into memory and read as a stream."""

import hashlib
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import config

UNIT = "tokens"  # of the throughput
IGNORE = -100  # the target of a token that does not count: padding

# Folders of the standard library that hold other packages, tests, or text that was generated.
PACKAGES = {"site-packages", "dist-packages"}
LEFT_OUT = PACKAGES | {"test", "tests", "idle_test", "encodings", "pydoc_data"}


class Batch(NamedTuple):
    inputs: Tensor  # [B, window] int64
    targets: Tensor  # [B, window] int64, the inputs' successors


@dataclass(frozen=True)
class Shape:
    vocabulary: int


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


@dataclass(frozen=True)
class Tokens:
    """A range of a file. It travels to workers as a path; nothing is loaded until it is read."""

    path: Path
    dtype: str
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def open(self) -> Tensor:
        """The tokens, mapped into memory: [len(self)] of `dtype`."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        mapped = torch.from_file(str(self.path), shared=False, size=self.end, dtype=dtype)
        return mapped[self.begin :]


def cut(tokens: Tensor, starts: Tensor, shape: Shape, window: int) -> Batch:
    """The windows at `starts` [B]; what lies behind the end gets the target IGNORE.

    Raises ConfigError for a token outside the vocabulary, on which a GPU would only abort.
    """
    places = starts[:, None] + torch.arange(window + 1)
    cutout = tokens[places.clamp(max=len(tokens) - 1)].long()
    if int(cutout.max()) >= shape.vocabulary:
        raise config.ConfigError(
            f"data.vocabulary = {shape.vocabulary}, but the data has the token {int(cutout.max())}"
        )
    targets = torch.where(places[:, 1:] < len(tokens), cutout[:, 1:], IGNORE)
    return Batch(cutout[:, :-1], targets)


@dataclass(frozen=True)
class RandomWindows:
    """The training split: every epoch draws new windows, at any place. TokenStream reads it."""

    tokens: Tokens
    shape: Shape
    window: int
    windows: int  # per epoch

    def __len__(self) -> int:
        return self.windows


class ConsecutiveWindows(Dataset[Batch]):
    """The validation split: all of its tokens, in windows side by side, each predicted once."""

    def __init__(self, tokens: Tokens, shape: Shape, window: int) -> None:
        self.tokens, self.shape, self.window = tokens, shape, window

    def __len__(self) -> int:
        return -(-(len(self.tokens) - 1) // self.window)

    def __getitems__(self, indices: list[int]) -> Batch:
        starts = torch.tensor(indices) * self.window
        return cut(self.tokens.open(), starts, self.shape, self.window)


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
        # Epoch and first micro-batch. In shared memory, because persistent workers keep the copy
        # of this object that they were started with.
        self.place = RawArray("q", 2)

    def start(self, epoch: int, first_micro_batch: int) -> None:
        """Choose what the next iteration yields: the rest of `epoch` from a micro-batch on."""
        self.place[:] = [epoch, first_micro_batch]

    def __iter__(self) -> Iterator[Batch]:
        epoch, first = self.place[:]
        info = get_worker_info()
        # The loader asks its workers in turn, so this keeps the order of the stream.
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        tokens = self.split.tokens.open()
        starts = self._starts(epoch, len(tokens))
        for micro_batch in range(first + worker, self.micro_batches, workers):
            begin = (micro_batch * self.world_size + self.rank) * self.micro_batch
            chosen = starts[begin : begin + self.micro_batch]
            yield cut(tokens, chosen, self.split.shape, self.split.window)

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
    """Join the files of each split to one, once per node. A .bin file is used where it lies."""
    target = prepared_path(cfg)
    if Path(cfg.source).suffix == ".bin" or target.exists():
        return
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    if Path(cfg.source).is_file():
        _join([Path(cfg.source)], partial / "all.bin")
    else:
        files = _find_files(cfg)
        held_out = max(1, round(cfg.validation * len(files)))
        _join(files[:held_out], partial / "val.bin")
        _join(files[held_out:], partial / "train.bin")
    partial.replace(target)  # the folder appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Look the prepared files up; their tokens are read when batches are asked for.

    Raises ConfigError where a split is shorter than one window.
    """
    train, val = _ranges(cfg)
    for name, tokens in (("training", train), ("validation", val)):
        if len(tokens) <= cfg.window:
            raise config.ConfigError(
                f"data.source = {cfg.source!r}: the {name} split has {len(tokens)} tokens, which "
                f"is not more than data.window = {cfg.window}"
            )
    shape = Shape(cfg.vocabulary)
    return Splits(
        RandomWindows(train, shape, cfg.window, cfg.windows_per_epoch),
        ConsecutiveWindows(val, shape, cfg.window),
        shape,
    )


def _ranges(cfg: config.Data) -> tuple[Tokens, Tokens]:
    """The tokens of the two splits: of two files, or the beginning and the end of one."""
    folder, dtype = prepared_path(cfg), "uint8"
    if (folder / "val.bin").exists():
        train, val = (folder / name for name in ("train.bin", "val.bin"))
        return (
            Tokens(train, dtype, 0, train.stat().st_size),
            Tokens(val, dtype, 0, val.stat().st_size),
        )
    path = folder / "all.bin"
    if Path(cfg.source).suffix == ".bin":
        path, dtype = Path(cfg.source), cfg.token_dtype
        if not path.is_file():
            raise config.ConfigError(f"data.source = {cfg.source!r}: there is no such file")
    size = path.stat().st_size // getattr(torch, dtype).itemsize
    border = size - round(cfg.validation * size)
    return Tokens(path, dtype, 0, border), Tokens(path, dtype, border, size)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the joined files; edited files have another place."""
    key = repr((cfg.source, cfg.pattern, cfg.validation, _versions(cfg)))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _versions(cfg: config.Data) -> list[tuple[str, int, int]]:
    """Name, size and time of every text file; none for the standard library, which stays."""
    source = Path(cfg.source)
    files = sorted(source.glob(cfg.pattern)) if source.is_dir() else [source]
    found = [(path.name, path.stat()) for path in files if path.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]


def _find_files(cfg: config.Data) -> list[Path]:
    """The files in an order that is random, but the same on all machines: by hash of the path."""
    stdlib = cfg.source == "stdlib"
    root = Path(sysconfig.get_path("stdlib") if stdlib else cfg.source)
    pattern, left_out = ("**/*.py", LEFT_OUT) if stdlib else (cfg.pattern, set())
    found = [path.relative_to(root) for path in root.glob(pattern) if path.is_file()]
    names = [name for name in found if left_out.isdisjoint(name.parts[:-1])]
    if len(names) < 2:
        raise config.ConfigError(
            f"data.source = {cfg.source!r} has {len(names)} files that match {pattern!r}: one is "
            "needed for training and one for validation"
        )
    names.sort(key=lambda name: hashlib.sha256(name.as_posix().encode()).digest())
    return [root / name for name in names]


def _join(files: Sequence[Path], target: Path) -> None:
    with target.open("wb") as joined:
        for path in files:
            with path.open("rb") as part:
                shutil.copyfileobj(part, joined)
