"""Notices, on one machine, what goes wrong on several: CPU tensors, waits, clocks, names."""

import datetime
import itertools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from engine import distributed
from support import common

ADDS = {"__iadd__", "__isub__", "add_", "sub_", "copy_"}  # into a tensor that is there
MAKERS = {"tensor", "as_tensor", "zeros", "ones", "full", "empty", "arange", "scalar_tensor"}
CPU, HOURS = time.process_time, itertools.count(0, 25)  # each look at the date is a day later
OWN = ("config", "data", "model", "optim", "steps", "train")  # the programs that users edit


class Hasty(datetime.datetime):
    """A clock on which hours are over in a moment."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return super().now(tz) + datetime.timedelta(hours=10_000 * CPU())


def hurry() -> None:
    """Let clocks run fast, by whatever names the project's programs call them."""
    clocks: dict[Any, Any] = {datetime.datetime: Hasty}
    clocks[time.localtime] = lambda *_: time.gmtime(3600 * next(HOURS))
    clocks[time.sleep] = lambda _: None  # a thread that waits for its hour goes on at once
    for kind in ("time", "monotonic", "perf_counter", "process_time"):
        for clock in (getattr(time, kind), getattr(time, f"{kind}_ns")):
            clocks[clock] = lambda clock=clock: 3_600_000 * clock()
    for module in (time, datetime, *(sys.modules[name] for name in OWN)):
        for name, value in [*vars(module).items()]:
            if isinstance(value, BuiltinFunctionType | type) and value in clocks:
                common.replace(module, name, clocks[value])


def be_on_node(rank: int, folder: Path) -> None:
    """Let this process find the name, load and disk of a node that no other rank is on."""
    common.replace(socket, "gethostname", lambda: f"node-{rank}")
    system, _, *rest = os.uname()
    common.replace(os, "uname", lambda: os.uname_result([system, socket.gethostname(), *rest]))
    common.replace(os, "getloadavg", lambda: [1e3 * rank] * 3)
    os.environ |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}  # of a torchrun, not of its ranks
    os.umask(0o026 if rank else 0o022)  # tells whose a file is that no Python has opened
    note_files(folder / f"files-{rank}", "r" if rank else "wax+")


def note_files(log: Path, ways: str) -> None:
    """Write down the files outside of the log's folder that this process opens in these ways."""
    file = log.open("w", buffering=1)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        path, way = (*map(str, arguments), "", "")[:2]
        if event == "open" and set(ways) & set(way) and not path.startswith(str(log.parent)):
            print(Path(path).absolute(), file=file)

    sys.addaudithook(note)


def demand_own_disks(folder: Path) -> None:
    """Demand that rank 1 has read nothing that rank 0 wrote on its node, and written nothing."""
    wrote, read = ({*(folder / f"files-{rank}").read_text().splitlines()} for rank in range(2))
    assert not wrote & read, "rank 0 has written it on its own node, and other nodes lack the file"
    others = [path.name for path in folder.rglob("*") if path.stat().st_mode & 0o777 == 0o640]
    others = [name for name in others if not name.startswith(("__1_", "calls-", "files-"))]
    assert not others, "rank 1 has written it: rank 0 alone writes, or each rank its share"


def openly(save: Callable[..., None]) -> Callable[..., None]:
    """A `torch.save` of whole tensors that opens files in Python, which tells who opens what."""

    def call(content: object, file: Any, *arguments: Any, **options: Any) -> None:
        shares = [leaf for leaf in tree_leaves(content) if hasattr(leaf, "to_local")]
        assert not shares, "one rank's share of a tensor: all ranks put it together first"
        if isinstance(file, str | Path):
            with Path(file).open("wb") as opened:
                save(content, opened, *arguments, **options)
        else:
            save(content, file, *arguments, **options)

    return call


class Homes(common.Reads):
    """Notes how tensors are read, and which are on the CPU because no device was named for them."""

    made: ClassVar[Any] = WeakTensorKeyDictionary()  # those without a named device

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, _, args, kwargs)
        options = kwargs or {}
        moved = any(isinstance(a, torch.device) for a in args)
        if sys._getframe(1).f_globals["__name__"] == "steps":
            self.look_at_addition(function.__name__, args)
            if function.__name__ == "to" and moved and not options.get("non_blocking"):
                Homes.seen.append("float: to() without non_blocking")
        if isinstance(result, Tensor):
            given = [tensor in Homes.made for tensor in args if isinstance(tensor, Tensor)]
            named = moved or any(isinstance(a, str) for a in args) or "device" in options
            Homes.made.pop(result, None)
            if not named and all(given) and (given or function.__name__ in MAKERS):
                Homes.made[result] = True
        return result

    def look_at_addition(self, name: str, args: Any) -> None:
        """Refuse a sum of the device in a tensor that is on the CPU wherever the model is."""
        if name in ADDS and any(isinstance(a, Tensor) and a not in Homes.made for a in args[1:]):
            assert args[0] not in Homes.made, "on the CPU whatever the device: name the device"


def without_device(owner: object) -> list[str]:
    """The names of an object's tensors that are on the CPU because no device was named."""
    return [n for n, v in vars(owner).items() if isinstance(v, Tensor) and v in Homes.made]


def demand_devices(collectives: Iterable[str]) -> None:
    """Let collectives take tensors of the rank's device only, and sums over ranks be exact."""
    for name in collectives:
        common.replace(dist, name, on_device(name, getattr(dist, name)))
    sum_over_ranks = distributed.sum_over_ranks

    def exactly(values: Tensor) -> Tensor:
        exact = values.dtype in (torch.float64, torch.int64)
        assert exact, "sums over ranks: float32 counts to 16.7 million, and no further"
        return sum_over_ranks(values)

    common.replace(distributed, "sum_over_ranks", exactly)


def on_device(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A collective that demands tensors of the rank's device, as NCCL does, and notes waits."""

    def call(*arguments: Any, **options: Any) -> Any:
        given = [a for a in (*arguments, *options.values()) if isinstance(a, Tensor)]
        own = "torch" not in sys._getframe(1).f_globals["__name__"]  # and not of a wrapper
        if own and not options.get("async_op"):
            Homes.seen.append(f"float: {name}()")
        assert not any(a in Homes.made for a in given), "NCCL takes no CPU tensors: name the device"
        return function(*arguments, **options)

    return call
