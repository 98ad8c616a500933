"""Checkpoints as folders: each rank writes and reads its share, by torch.distributed.checkpoint.

`rest.pt` holds all that the ranks do not share out; of what they do, shapes and types.
"""

import hashlib
import json
import os
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorProperties
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.tensor import DTensor
from torch.futures import Future

import config
from engine.distributed import Process, on_main

REST = "rest.pt"
CONTENTS = ".metadata"  # in which file of the folder each share is, as rank 0 lists them
OF_METADATA = "torch.distributed.checkpoint.metadata"
# What the list may name. To unpickle any other name could run any code.
PLAIN = {
    *((OF_METADATA, name) for name in ("Metadata", "MetadataIndex", "StorageMeta")),
    *((OF_METADATA, name) for name in ("TensorStorageMetadata", "ChunkStorageMetadata")),
    *((OF_METADATA, name) for name in ("TensorProperties", "_MEM_FORMAT_ENCODING")),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    *(("torch", name) for name in ("Size", "float64", "float32", "bfloat16", "float16")),
    *(("torch", name) for name in ("int64", "int32", "uint8", "bool")),
}


class Writer(FileSystemWriter):
    """Writes the shares of this rank; rank 0 has the digests of all ranks' files."""

    def __init__(self, folder: Path, process: Process) -> None:
        super().__init__(folder)
        self.process = process
        self.digests: dict[str, str] = {}

    def storage_meta(self) -> StorageMeta:
        """Nothing: the folder gets another name."""
        return StorageMeta()

    def write_data(self, *arguments: Any) -> Future[list[WriteResult]]:
        """Write, and wait at the store until all ranks have written, however long they take."""
        process, results = self.process, list[Future[list[WriteResult]]]()

        def write() -> str:
            try:
                if process.device.type == "cuda":
                    torch.cuda.set_device(process.device)  # of this thread
                results.append(super(Writer, self).write_data(*arguments))
                files = Path(self.path).glob(f"__{process.rank}_*")
                return json.dumps(["", {file.name: digest(file) for file in files}])
            except Exception as error:
                # torch's writer hides the error of the file, for example that the disk is full.
                hidden = isinstance(error.__context__, OSError)
                reason = error.__context__ if hidden else error
                return json.dumps([f"rank {process.rank} cannot write: {reason}", {}])

        def gather() -> None:
            others = range(1, process.world_size)
            with suppress(dist.DistStoreError):  # a rank is gone: it will be missed soon
                answers = [own, *(on_main(_as_main(process, n), str) for n in others)]
                for error, digests in map(json.loads, answers):
                    if error:
                        raise RuntimeError(error)
                    self.digests |= digests

        own = on_main(_as_main(process, process.rank), write)
        on_main(process, gather)
        return results[0]


def _as_main(process: Process, rank: int) -> Process:
    """The same ranks for `on_main`, where another one than rank 0 does the task."""
    store = PrefixStore(f"rank {rank}", process.store)
    return replace(process, rank=abs(process.rank - rank), store=store)


class _Properties(TensorProperties):
    """What a list says of a tensor: torch 2.15 added strides, which versions before do not take."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        set_state: Any = super().__setstate__  # it has no types
        set_state(state[:5])


def _member(kind: type[Enum], name: str) -> Enum:
    """A member of an enumeration; Python before 3.11.4 writes members as calls of `getattr`."""
    return kind[name]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _member  # not the function itself, by which code would be in reach
        if (module, name) not in PLAIN:
            raise pickle.UnpicklingError(f"{CONTENTS} names {module}.{name}, which is not read")
        return _Properties if name == "TensorProperties" else super().find_class(module, name)


class Reader(FileSystemReader):
    """Reads shares, by the list of them, which is read as plain values."""

    def __init__(self, folder: Path) -> None:
        """Read the list here: from torch's loader an error of the list comes without its words."""
        super().__init__(folder)
        try:
            with (folder / CONTENTS).open("rb") as file:
                self.listed: Metadata = _Unpickler(file).load()
        except Exception as error:  # of another program, or of another torch
            raise config.ConfigError(f"{folder / CONTENTS} cannot be read: {error}") from error

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """Where each share is."""
        return self.listed


def write(
    folder: Path, content: dict[str, Any], process: Process
) -> tuple[dict[str, Any], dict[str, str]]:
    """Write the shares of all ranks. Returns the rest, and on rank 0 the digest of each file.

    Every rank must call it; raises RuntimeError on all ranks where one cannot write.
    """
    shared: dict[str, Tensor] = {}

    def put_aside(name: str, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, DTensor):
            return tensor
        shared[name] = tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    rest = mapped(content, put_aside)
    writer = Writer(folder, process)
    _attempt(folder, lambda: save(shared, storage_writer=writer), RuntimeError)
    return rest, writer.digests


def opened(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, mapped; tensors that are shared out in a folder lack values."""
    file = path / REST if path.is_dir() else path
    content: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    return content


def fill(path: Path, values: dict[str, Any]) -> None:
    """Read this rank's shares from a folder into their tensors; every rank must call it."""
    shared: dict[str, Tensor] = {}

    def note(name: str, tensor: Tensor) -> Tensor:
        if isinstance(tensor, DTensor):
            shared[name] = tensor
        return tensor

    mapped(values, note)
    _attempt(path, lambda: load(shared, storage_reader=Reader(path)))


def whole(path: Path, without: str = "") -> dict[str, Any]:
    """The content of a checkpoint with whole tensors, read by this process alone."""
    kept = {name: value for name, value in opened(path).items() if name != without}
    shared: dict[str, Tensor] = {}

    def place(name: str, tensor: Tensor) -> Tensor:
        if not tensor.is_meta:
            return tensor
        shared[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
        return shared[name]

    content: dict[str, Any] = mapped(kept, place)
    if shared:
        with warnings.catch_warnings(action="ignore"):  # of a process without a process group
            reader = Reader(path)
            _attempt(path, lambda: load(shared, storage_reader=reader, no_dist=True))
    return content


def mapped(values: Any, change: Callable[[str, Tensor], Tensor], name: str = "") -> Any:
    """The same dictionaries and lists with changed tensors, each of which is told its name."""
    if isinstance(values, Tensor):
        return change(name, values)
    inside = f"{name}." if name else ""
    if isinstance(values, dict):
        return {key: mapped(value, change, f"{inside}{key}") for key, value in values.items()}
    if isinstance(values, list):
        return [mapped(value, change, f"{inside}{n}") for n, value in enumerate(values)]
    return values


def _attempt(
    path: Path, task: Callable[[], object], kind: type[Exception] = config.ConfigError
) -> None:
    """Do what all ranks do together; raises the first failure of any rank, as of a kind.

    A file that cannot be read at the moment is no mistake: the next start may read the file.
    """
    try:
        task()
    except CheckpointException as error:
        reason, _ = next(iter(error.failures.values()))
        kind = OSError if isinstance(reason, OSError) else kind
        raise kind(f"{path}: {reason}") from error


def rename(partial: Path, path: Path) -> None:
    """Give a folder its name, so that a power cut does not take the name away."""
    partial.rename(path)
    parent = os.open(path.parent, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def damage(path: Path, digests: dict[str, str]) -> str:
    """The files of a folder whose content is not what was written; '' if there are none."""
    with ThreadPoolExecutor() as pool:
        found = pool.map(digest, [path / name for name in digests])
        differ = [name for name, new in zip(digests, found, strict=True) if new != digests[name]]
    return f"the content of {', '.join(differ)} is not what was written" if differ else ""


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
