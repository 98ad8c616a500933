"""Streams, and how they deal their files or samples out to ranks and their workers."""

import ast
import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from ddpgen.checking.reading.expressions import (
    constant,
    last_part,
    matches,
    operands,
    source,
)
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.numbers import OPERATIONS
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding

_RANK = re.compile(r"(get_|global_)?rank(_id)?")
_WORLD = re.compile(r"(get_)?world(_size)?|num_(replicas|ranks)|n_?ranks")
_WORKER = re.compile(r"id|worker_?(id|index|idx)")
_WORKERS = re.compile(r"n(um)?_workers|workers_per_rank")


class Reader(NamedTuple):
    """One worker process of one rank; the numbers of both have no common divisor.

    Attributes:
        rank: the number of the rank.
        worker: the number of the worker among those of the rank.
        world: how many ranks there are.
        workers: how many workers each rank has.
    """

    rank: int
    worker: int
    world: int = 3
    workers: int = 2


READERS = [Reader(rank, worker) for rank, worker in product(range(3), range(2))]


class Share(NamedTuple):
    """Every so many samples from the one of a number on: `files[first::step]`."""

    node: ast.expr
    first: ast.expr
    step: ast.expr


def is_stream(node: ast.AST | None) -> bool:
    """Whether a node is a class of data sets that are read from the beginning to the end."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(source(base).partition("[")[0].endswith("IterableDataset") for base in bases)


def streams(module: Module) -> Iterator[ast.ClassDef]:
    """The classes of streams."""
    yield from (n for n in module.nodes if isinstance(n, ast.ClassDef) and is_stream(n))


def shares(module: Module, node: ast.AST) -> Iterator[Share]:
    """Where something takes every so many samples, in any spelling."""
    for part in module.below(node):
        if isinstance(part, ast.Slice) and part.lower and part.step:
            yield Share(part.lower, part.lower, part.step)
        elif isinstance(part, ast.Call) and len(part.args) in (3, 4):
            name, bounds = last_part(source(part.func)), part.args
            if name in ("range", "islice") and len(bounds) == (3 if name == "range" else 4):
                yield Share(part, bounds[-3], bounds[-1])
        elif isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq | ast.NotEq):
            counted = operands(part.left, ast.Mod)
            yield from (Share(part, part.comparators[0], count) for count in counted[1:])


def dealt(module: Module, share: Share) -> list[tuple[int, int]] | None:
    """Where each reader begins, and its step; None where the text does not tell."""
    pairs = [(number(module, share.first, r), number(module, share.step, r)) for r in READERS]
    known = [(first, step) for first, step in pairs if first is not None and step]
    return known if len(known) == len(READERS) else None


def number(module: Module, node: ast.expr, reader: Reader, depth: int = 8) -> int | None:
    """The number that an expression is for one worker of one rank."""
    known = constant(node)
    if depth == 0 or isinstance(known, int):
        return known if isinstance(known, int) else None
    if isinstance(node, ast.IfExp):  # `info.id if info else 0`: there are workers
        return number(module, _with_workers(node), reader, depth - 1)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        sides = [number(module, side, reader, depth - 1) for side in (node.left, node.right)]
        left, right = sides
        return None if left is None or right is None else OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        return _called(module, node, reader, depth)
    if isinstance(node, ast.Subscript):
        return _by_name(str(constant(node.slice)).lower(), reader)
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    found = {number(m, value, reader, depth - 1) for m, value in _set_to(module, node)}
    if found:
        return found.pop() if len(found) == 1 else None
    return _by_name(last_part(source(node)).lower(), reader)


def _called(module: Module, call: ast.Call, reader: Reader, depth: int) -> int | None:
    name = last_part(module.name(call.func))
    if name in ("int", "max") and call.args:
        return number(module, call.args[-1 if name == "max" else 0], reader, depth - 1)
    if name in ("get", "getenv") and call.args:
        return _by_name(str(constant(call.args[0])).lower(), reader)
    return _by_name(name, reader) if name.startswith("get_") else None


def _set_to(module: Module, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """What a name was set to last, or what callers give for it."""
    if (found := binding(module, node)) is None:
        yield from arguments(module, node)
    else:
        value = found.value
        if isinstance(value, ast.IfExp):
            value = _with_workers(value)
        several = isinstance(value, ast.Tuple) and found.place is not None
        if isinstance(value, ast.Tuple) and several and len(value.elts) > (found.place or 0):
            value = value.elts[found.place or 0]
        yield module, value


def _with_workers(choice: ast.IfExp) -> ast.expr:
    return choice.orelse if matches(choice.test, r"is None$|^not ") else choice.body


def _by_name(name: str, reader: Reader) -> int | None:
    """What a name says of a number: `rank`, `world_size`, `info.num_workers`."""
    known = (
        (_RANK, reader.rank),
        (_WORLD, reader.world),
        (_WORKER, reader.worker),
        (_WORKERS, reader.workers),
    )
    return next((value for pattern, value in known if pattern.fullmatch(name)), None)
