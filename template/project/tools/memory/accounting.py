"""Counts the tensors in a device's memory while a step or an evaluation runs, for tools.memory.

It runs them with tensors that have shapes and no content: that takes no memory.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import data
import model
import steps


class Accounting(TorchDispatchMode):
    """Sees every operation, and counts the bytes alive on a device by what they are for."""

    def __init__(self, network: nn.Module, batch: data.Batch, device: torch.device) -> None:
        TorchDispatchMode.__init__(self)
        self.device = device
        self.kind = "activations"  # what new tensors count as
        self.alive: Counter[str] = Counter()
        self.fullest: Counter[str] = Counter()
        self.kinds: dict[int, str] = {}  # by the identity of the storage, which views share
        for tensor in (*network.parameters(), *network.buffers()):
            self.count(tensor, "parameters")
        for tensor in batch:
            self.count(tensor, "batch")

    def count(self, tensor: Tensor, kind: str, again: bool = False) -> None:
        """Count a tensor, unless that is done; `again`: as another kind from now on."""
        storage = tensor.untyped_storage()
        known = self.kinds.get(id(storage))
        if tensor.device.type != self.device.type or (known and not again):
            return
        if known:
            self.alive[known] -= storage.nbytes()
        else:
            # As long as memory is in use, its storage stays the same object.
            end = weakref.finalize(storage, self._freed, id(storage), storage.nbytes())
            end.atexit = False
        self.kinds[id(storage)] = kind
        self.alive[kind] += storage.nbytes()
        if self.alive.total() > self.fullest.total():
            self.fullest = self.alive.copy()

    def _freed(self, key: int, size: int) -> None:
        self.alive[self.kinds.pop(key)] -= size

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and count what it made."""
        result = func(*args, **(kwargs or {}))
        kind = self.kind
        if func is torch.ops.aten._to_copy.default:
            source = self.kinds.get(id(args[0].untyped_storage()))
            kind = "copies" if source == "parameters" else kind
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.count(tensor, kind)
        return result


def training(
    network: nn.Module, batch: data.Batch, device: torch.device, views: bool, passes: int = 1
) -> Counter[str]:
    """Bytes by kind at the fullest moment of a step, without what DDP and the optimizer keep.

    `passes` are the micro-batches; `views`: gradients live in DDP's buckets. The update adds
    nothing: norm, clipping and fused AdamW work in place.
    """
    accounting = Accounting(network, batch, device)
    last = False

    def arrived(parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        accounting.count(parameter.grad, "gradients", again=True)
        if last and views:  # DDP has copied it to its bucket
            parameter.grad = None

    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(arrived)
    with accounting:
        for number in range(passes):
            last = number == passes - 1
            accounting.kind = "activations"
            loss = model.loss_sum(*steps.forward(network, batch, device))
            accounting.kind = "temporary"
            loss.backward()
    network.zero_grad(set_to_none=True)
    return accounting.fullest


@torch.no_grad()
def evaluation(network: nn.Module, batch: data.Batch, device: torch.device) -> Counter[str]:
    """Bytes by kind at the fullest moment of an evaluation, likewise."""
    network.eval()
    accounting = Accounting(network, batch, device)
    with accounting:
        model.metric_sums(*steps.forward(network, batch, device))
    return accounting.fullest
