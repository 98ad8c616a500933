"""Counts what FSDP adds to a step or an evaluation, and leaves out, for tools.memory.

FSDP itself needs a world. Here the whole network runs by itself, and hooks take and free memory
where FSDP2 would: all-gathers before each block, in the order in which FSDP prefetches them, and
reduce-scatters behind it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import data
import model
import steps
from tools.memory.accounting import Accounting


@dataclass(frozen=True)
class Settings:
    """The way in which weights are shared out."""

    ranks: int  # that share one copy
    low: torch.dtype | None  # in which weights travel; None: in that of the parameters
    reshard: bool  # a block's weights are freed after its forward pass
    reduce_each: bool = False  # gradients are shared out after each micro-batch


@dataclass(eq=False)
class Group:
    """Parameters that are gathered together, and the memory that they take at the moment."""

    module: nn.Module
    parameters: list[nn.Parameter]
    last: bool  # of the whole network: what belongs to no block
    arrived: int = 0  # gradients in this backward pass
    backward: bool = False  # that pass has reached the group
    flat: Tensor | None = None  # as an all-gather leaves the weights
    weights: list[Tensor] = field(default_factory=list)  # in their shapes
    sums: list[Tensor] = field(default_factory=list)  # whole gradients of earlier micro-batches
    share: Tensor | None = None  # of the gradients


def repeated(network: nn.Module) -> list[nn.Module]:
    """The modules of the class that occurs several times and has the most parameters."""
    classes: dict[type[nn.Module], list[nn.Module]] = {}
    for part in network.modules():
        if not type(part).__module__.startswith("torch."):
            classes.setdefault(type(part), []).append(part)
    several = [parts for parts in classes.values() if len(parts) > 1]
    return max(several, key=lambda parts: sum(map(elements, parts)), default=[])


def elements(module: nn.Module) -> int:
    """The size of its parameters."""
    return sum(p.numel() for p in module.parameters())


def groups(network: nn.Module, blocks: Iterable[nn.Module]) -> list[Group]:
    """As fully_shard divides them: each block, from the last on, then the rest."""
    taken: set[nn.Parameter] = set()
    found = []
    for module in [*reversed([*blocks]), network]:
        own = [p for p in module.parameters() if p not in taken]
        taken |= set(own)
        found.append(Group(module, own, last=module is network))
    return found


def padded(parameters: Iterable[Tensor], ranks: int) -> int:
    """The elements of one rank's share: rows are dealt out, and the last ranks' filled up."""
    return sum(-(-len(p) // ranks) * p[0].numel() if p.ndim else 1 for p in parameters)


class Sharded:
    """A network that takes and frees memory as FSDP does, through hooks."""

    book: Accounting

    def __init__(
        self,
        network: nn.Module,
        blocks: Sequence[nn.Module],
        device: torch.device,
        settings: Settings,
    ) -> None:
        self.network = network
        self.device = device
        self.settings = settings
        self.reduces = True  # in the next backward pass
        self.order: list[Group] = []  # of the forward pass
        self.held: Tensor | None = None  # the last all-gather's result, until the next one
        self.sent: Tensor | None = None  # the last reduce-scatter's input, until the next one
        self.groups = groups(network, blocks)
        sizes = (padded([p], settings.ranks) * p.element_size() for p in network.parameters())
        self.share = sum(sizes)  # of the parameters, which stay as they are
        for group in self.groups:
            self._follow(group)

    def training(self, batch: data.Batch, passes: int = 1) -> Counter[str]:
        """Bytes by kind at the fullest moment of a step, without the optimizer's moments."""
        self.book = Accounting(self.network, batch, self.device)
        with self.book:
            for number in range(passes):
                self.reduces = self.settings.reduce_each or number == passes - 1
                self.book.kind = "activations"
                loss = model.loss_sum(*steps.forward(self.network, batch, self.device))
                self.book.kind = "temporary"
                loss.backward()
                self._end_backward()
        for group in self.groups:
            group.share = None
        return self._fullest()

    @torch.no_grad()
    def evaluation(self, batch: data.Batch) -> Counter[str]:
        """Bytes by kind at the fullest moment of an evaluation, likewise."""
        self.network.eval()
        self.book = Accounting(self.network, batch, self.device)
        with self.book:
            model.metric_sums(*steps.forward(self.network, batch, self.device))
        return self._fullest()

    def _fullest(self) -> Counter[str]:
        """With a share in place of the parameters, which were there all the time."""
        buffers = {id(b.untyped_storage()): b.untyped_storage() for b in self.network.buffers()}
        found = self.book.fullest.copy()
        found["parameters"] = self.share + sum(storage.nbytes() for storage in buffers.values())
        return found

    def _follow(self, group: Group) -> None:
        """Have a group's hooks called, and its weights computed with in their type."""
        group.module.register_forward_pre_hook(partial(self._enter, group))
        group.module.register_forward_hook(partial(self._leave, group))
        for parameter in group.parameters:
            parameter.data = parameter.data.to(self.settings.low or parameter.dtype)
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(partial(self._arrived, group))

    def _take(self, kind: str, elements: int, dtype: torch.dtype) -> Tensor:
        """Memory of a kind, without content."""
        before, self.book.kind = self.book.kind, kind
        taken = torch.empty(elements, dtype=dtype, device=self.device)
        self.book.kind = before
        return taken

    def _gather(self, group: Group) -> None:
        """Begin an all-gather; a world of one has none."""
        if group.flat is None and self.settings.ranks > 1 and group.parameters:
            size = padded(group.parameters, self.settings.ranks) * self.settings.ranks
            group.flat = self._take("gathered", size, group.parameters[0].dtype)

    def _copy_out(self, group: Group) -> None:
        """Give each parameter its whole weights."""
        ranks = self.settings.ranks
        group.weights = [
            self._take("gathered", padded([p], ranks) * ranks, p.dtype) for p in group.parameters
        ]

    def _enter(self, group: Group, *_: object) -> None:
        if group.weights:
            return
        self._gather(group)
        self.held = None
        self._copy_out(group)
        self.held, group.flat = group.flat, None

    def _leave(self, group: Group, _: object, __: object, output: Any) -> None:
        if group.backward:  # a recomputation
            return
        if group.last:
            self.held = None
        elif self.settings.reshard:
            group.weights = []
        self.order.append(group)
        for tensor in pytree.tree_leaves(output):
            if isinstance(tensor, Tensor) and tensor.requires_grad:
                tensor.register_hook(partial(self._before_backward, group))

    def _before_backward(self, group: Group, _: Tensor) -> None:
        if group.backward:
            return
        group.backward = True
        if not group.weights:
            self._gather(group)
            self._copy_out(group)
            group.flat = None
        place = self.order.index(group)
        if place and not self.order[place - 1].weights:
            self._gather(self.order[place - 1])  # beside the backward pass of this group

    def _arrived(self, group: Group, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.book.count(parameter.grad, "gradients", again=True)
        group.arrived += 1
        if not group.last and group.arrived == sum(p.requires_grad for p in group.parameters):
            self._finish(group)

    def _end_backward(self) -> None:
        """Share out what belongs to no block, as FSDP does at the end of a backward pass."""
        for group in self.groups:
            if group.backward:
                self._finish(group)
        self.sent = None
        self.order.clear()

    def _finish(self, group: Group) -> None:
        """Free the weights, and share the gradients out, or add them up."""
        group.weights, group.arrived, group.backward = [], 0, False
        trained = [p for p in group.parameters if p.grad is not None]
        wide = torch.float32 if self.settings.low else group.parameters[0].dtype
        adds_up = self.settings.low and not self.reduces
        if adds_up and not group.sums:
            group.sums = [self._take("gradients", p.numel(), wide) for p in trained]
        if group.sums:
            forget(trained)
        if not self.reduces or not trained:
            return
        share = padded(trained, self.settings.ranks)
        self.sent = None
        self.sent = self._take("sent", share * self.settings.ranks, wide)
        group.sums = []
        forget(trained)
        arriving = self._take("gradients", share, wide)
        group.share = arriving if group.share is None else group.share


def forget(parameters: Iterable[Tensor]) -> None:
    """Free their gradients."""
    for parameter in parameters:
        parameter.grad = None
