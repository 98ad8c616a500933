"""Batches: the parts that they are unpacked into, and what of them is moved to a device."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import (
    Function,
    last_part,
    matches,
    method_name,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.programs import Module, once

_TO_DEVICE = ("to", "cuda", "xpu", "npu")
# What `to` gets where it changes the type of numbers.
_TYPE = r"dtype|promote_types|torch\.(b?float|double|half|u?int|long|bool)\d*\b|memory_format"
# Other forms of a tensor.
_FORMS = ("contiguous", "flatten", "float", "long", "reshape", "squeeze", "unsqueeze", "view")
# Losses by name; methods of meters and lists are none.
_LOSS = re.compile(r"(?!.*(meter|log|print))\w*(criterion|loss|cross_entropy)\w*", re.IGNORECASE)
# Parts that need not be tensors, or may stay on the CPU.
_ASIDE = re.compile(
    r"_|i|j|k|n|e|it|iters?|iteration|step|epoch|.*(idx|index|len|size|num|ids?|name|path|meta|info)"
    r"(e?s|gths?|_.*|x)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Parts:
    """The parts that a batch is unpacked into.

    Attributes:
        statement: the loop or the assignment that unpacks.
        names: the names of the parts.
        where: the node below which the parts are used.
    """

    statement: ast.For | ast.Assign
    names: frozenset[str]
    where: ast.AST


def unpacked(module: Module) -> Iterator[Parts]:
    """What loops take from loaders, and what assignments make of one value, in several parts."""
    for node in module.nodes:
        if isinstance(node, ast.For):
            names = _names(_without_counter(node))
            if len(names) > 1:
                yield Parts(node, names, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
            where = module.loop(node) or module.scope(node)
            # What is called `ids` may be a part of another kind, until somebody moves that.
            names = _names(node.targets[0]) | (stored_in(*node.targets) & moved(module, where))
            if len(names) > 1 and isinstance(node.value, ast.Name | ast.Attribute | ast.Call):
                yield Parts(node, names, where)


def _without_counter(loop: ast.For) -> ast.expr:
    """The target of a loop, without the number that `enumerate` adds."""
    counts = any(
        isinstance(n, ast.Call) and matches(n.func, r"^enumerate$") for n in ast.walk(loop.iter)
    )
    if counts and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        return loop.target.elts[1]
    return loop.target


def _names(target: ast.expr) -> frozenset[str]:
    found = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return frozenset(name for name in found if not _ASIDE.fullmatch(name))


def moves(module: Module, node: ast.AST) -> list[ast.Call]:
    """The calls within a node that bring something to a device."""
    return [call for call in module.methods(*_TO_DEVICE, below=node) if _to_device(call)]


def _to_device(call: ast.Call) -> bool:
    given = [*call.args, *(k.value for k in call.keywords if k.arg in ("device", None))]
    if method_name(call) == "to":
        return any(not matches(value, _TYPE) for value in given)
    return not matches(receiver(call), r"^torch$")


@once
def moved(module: Module, node: ast.AST) -> frozenset[str]:
    """The texts of what is moved to a device within a node, one by one or in a comprehension."""
    found = set()
    for call in moves(module, node):
        value = receiver(call)
        found.add(source(value))
        found |= {source(each) for each in _iterated(module, call, value)}
        while isinstance(value, ast.Subscript):  # batch[key] = batch[key].to(device)
            value = value.value
            found.add(source(value))
    return frozenset(found)


def _iterated(module: Module, call: ast.Call, value: ast.expr) -> Iterator[ast.expr]:
    """What a comprehension or `map` goes over that moves each element."""
    for child, above in module.way(call):
        if isinstance(above, ast.stmt):
            return
        if isinstance(above, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            for part in above.generators:
                if source(value) in {source(n) for n in ast.walk(part.target)}:
                    yield from _elements(part.iter)
        if isinstance(child, ast.Lambda) and isinstance(above, ast.Call):
            for given in above.args:
                yield from _elements(given) if given is not child else ()


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    """An iterable, and what it is made of where that is written out."""
    if isinstance(node, ast.Call) and method_name(node) in ("items", "values"):
        node = receiver(node)
    yield node
    if isinstance(node, ast.Tuple | ast.List):
        yield from node.elts


def stored_again(module: Module, parts: Parts) -> set[str]:
    """The names of parts that get another value."""
    below = (n for n in module.below(parts.where) if isinstance(n, ast.Name))
    unpacking = {*map(id, ast.walk(_target(parts)))}
    return {n.id for n in below if isinstance(n.ctx, ast.Store) and id(n) not in unpacking}


def _target(parts: Parts) -> ast.expr:
    statement = parts.statement
    return statement.target if isinstance(statement, ast.For) else statement.targets[0]


def computes_loss(module: Module, call: ast.Call) -> bool:
    """Whether a call computes a loss, by its name."""
    return _LOSS.fullmatch(last_part(module.name(call.func)) or method_name(call)) is not None


def is_loss(module: Module, call: ast.Call) -> bool:
    """Whether a call computes a loss from what it is given, and moves nothing itself."""
    moving = any(moves(other, function) for other, function in module.callees(call))
    return computes_loss(module, call) and not moving


def given(call: ast.Call) -> dict[str, ast.expr]:
    """The plain names that a call is given, as `a`, `*a`, `key=a` or `a.flatten()`."""
    values = [*call.args, *(k.value for k in call.keywords)]
    bare = [v.value if isinstance(v, ast.Starred) else v for v in values]
    return {inner.id: value for value in bare if isinstance(inner := _shaped(value), ast.Name)}


def _shaped(node: ast.expr) -> ast.expr:
    """What another form is made of, on the same device: `a.view(-1)`."""
    while isinstance(node, ast.Call) and method_name(node) in _FORMS:
        node = receiver(node)
    return node


def reaching_losses(module: Module, parts: Parts) -> dict[str, ast.expr]:
    """The parts that a loss gets, here or where the function gives them back; and each place."""
    found: dict[str, ast.expr] = {}
    for call in module.calls_below(parts.where):
        if is_loss(module, call):
            found = {n: v for n, v in given(call).items() if n in parts.names} | found
    function = module.function(parts.statement)
    for node in module.below(function) if function else ():
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and function:
            for place, value in enumerate(node.value.elts):
                named = isinstance(value, ast.Name) and value.id in parts.names
                if named and _result_reaches_loss(module, function, place):
                    found.setdefault(source(value), value)
    return found


def _result_reaches_loss(module: Module, function: Function, place: int) -> bool:
    """Whether a loss gets the result of a function at a place: `loss(*f(x))`, or by a name."""
    for other, use in uses(module, function):
        call = other.parents[use]
        around = other.parents[call]
        if isinstance(around, ast.Starred):
            taking = other.parents[around]
            if isinstance(taking, ast.Call) and is_loss(other, taking):
                return True
        if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Tuple):
            names = [source(target) for target in around.targets[0].elts]
            below = other.calls_below(other.scope(call))
            if place < len(names) and any(
                names[place] in given(inner) for inner in below if is_loss(other, inner)
            ):
                return True
    return False
