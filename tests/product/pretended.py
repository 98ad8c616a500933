"""A device that is not the CPU, on machines that have no other (docs/decisions/0020-rehearsal.md).

Tensors on the device "pretended" hold a tensor of the CPU, which computes for them, so that values
are right. Everything that such a tensor takes part in goes through `Machine.run`, which refuses
what a GPU refuses, and notes where the host would wait for a GPU.
"""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration as registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretended"
COPIES = ("_to_copy", "copy_")
# What gives the host a value, or a shape that follows from values.
WAITS = ("_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "_unique2")
HALVED = ("linear", "matmul", "bmm", "conv2d", "scaled_dot_product_attention")  # by autocast
HERE = (Path(__file__).name, "torch", "site-packages")


class _Module(registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class Pretended(Tensor):
    """A tensor that says that it is on the device, and holds what it says on the CPU."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Pretended":
        return Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            inner.stride(),
            inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )

    def __init__(self, inner: Tensor) -> None:
        self.held = inner

    def __repr__(self, **_: Any) -> str:
        Machine.now.waits.append(f"repr: {place()}")
        return repr(self.held)

    def tolist(self) -> Any:
        """torch leaves this to subclasses."""
        Machine.now.waits.append(f"tolist: {place()}")
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Machine.now.run(func, args, kwargs or {})


class Machine(TorchDispatchMode):
    """The device, while it is there; one at a time."""

    now: "Machine"

    def __init__(self) -> None:
        super().__init__()
        Machine.now = self
        self.waits: list[str] = []  # operation and line
        self.collectives: list[str] = []  # kind, types and shapes

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """An operation: checked, done by the CPU, and its result put back on the device."""
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        here = [x for x in tensors if isinstance(x, Pretended)]
        device = kwargs.get("device")
        makes = device is not None and torch.device(device).type == NAME
        name = func._schema.name.partition("::")[2]
        if func.namespace == "c10d":
            shapes = [f"{str(x.dtype)[6:]}{list(x.shape)}" for x in tensors]
            self.collectives.append(f"{name} {' '.join(shapes)}")
        if not (here or makes):
            return func(*args, **kwargs)
        if name == "copy_":
            leaves = not isinstance(args[0], Pretended)
        else:
            leaves = name == "_to_copy" and device is not None and not makes
        self.check(name, args, kwargs, [x for x in tensors if not isinstance(x, Pretended)])
        if name in WAITS or leaves or _chooses_by_values(name, args):
            self.waits.append(f"{name}: {place()}")
        outer = {id(x.held): x for x in here}
        args, kwargs = pytree.tree_map_only(Pretended, lambda x: x.held, (args, kwargs))
        if makes:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        result = func(*args, **kwargs)
        if leaves:
            return result
        return pytree.tree_map_only(
            Tensor, lambda x: outer[id(x)] if id(x) in outer else Pretended(x), result
        )

    def check(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], elsewhere: Sequence[Tensor]
    ) -> None:
        """Raise RuntimeError for what a GPU's kernels refuse, or read wrongly."""
        fused = name.startswith("_fused_")
        if name not in COPIES and any(x.dim() or fused for x in elsewhere):
            raise RuntimeError(f"{name} has tensors on two devices: {place()}")
        if fused and any(x.dtype != torch.float32 for x in (*args[5], kwargs["lr"])):
            raise RuntimeError(f"{name} reads steps and learning rate as float32: {place()}")


def _chooses_by_values(name: str, args: Sequence[Any]) -> bool:
    """Whether an index is a mask, whose number of true values the host has to know."""
    if name not in ("index", "index_put_"):
        return False
    return any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])


def place() -> str:
    """The innermost line of the program."""
    frames = traceback.extract_stack()
    own = [f for f in frames if not set(HERE) & {*Path(f.filename).parts}]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}" if own else "?"


def _empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    """For `torch.tensor`, which passes modes by."""
    return Pretended(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Pretended, non_blocking: bool = False) -> Tensor:
    """Likewise; what is copied comes from the CPU."""
    target.held.copy_(source, non_blocking=non_blocking)
    return target


def _halving(name: str) -> Callable[..., Any]:
    operation = getattr(torch.ops.aten, name).default
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def lower(x: Any) -> Any:
        floats = isinstance(x, Tensor) and x.is_floating_point()
        return x.to(torch.get_autocast_dtype(NAME)) if floats else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operation(*pytree.tree_map(lower, args), **kwargs)

    return kernel


def install() -> list[torch.library.Library]:
    """Have the device in this process, for as long as what is returned lives."""
    registration._setup_privateuseone_for_python_backend(NAME, _Module())
    every, some = (torch.library.Library(name, "IMPL") for name in ("_", "aten"))
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    some.impl("empty_strided", _empty_strided, "PrivateUse1")
    some.impl("_copy_from", _copy_from, "PrivateUse1")
    for name in HALVED:
        some.impl(name, _halving(name), "AutocastPrivateUse1")
    return [every, some]
