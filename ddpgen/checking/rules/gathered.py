"""G1: losses over what ranks gather, and forwards that go around DDP to parts of the model."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import matches, receiver, source
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.guards import without_gradients
from ddpgen.checking.reading.nodes import is_local_rank
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, is_ddp, mentions
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.gradients import is_inner
from ddpgen.checking.rules.growth import LETS_GO


@rule(
    "G1",
    "gradients do not flow through all_gather: this loss has those of this rank's own part alone",
    "put this rank's tensor back at its place: parts[rank] = own; or use torch.distributed.nn",
)
def gathered_without_gradients(module: Module) -> Iterator[ast.AST]:
    for call in module.called("all_gather", "all_gather_into_tensor"):
        if len(call.args) < 2 or not isinstance(call.args[0], ast.Name):
            continue
        parts, own = call.args[0].id, call.args[1]
        around = module.loop(call) or module.scope(call)
        if without_gradients(module, call) or _put_back(module, parts, around):
            continue
        later = [c for c in module.methods("backward", below=around) if c.lineno > call.lineno]
        if any(mentions(module, receiver(c), rf"\b{parts}\b", 4) for c in later):
            if _of_the_model(module, own):
                yield call
        elif not later and _given_by_the_model(module, own) and _reaches_loss(module, call):
            yield call


def _given_by_the_model(module: Module, node: ast.expr, depth: int = 3) -> bool:
    """Whether callers hand over what comes out of the wrapped model, with its graph."""
    if depth == 0 or matches(node, LETS_GO):
        return False
    for name in (n for n in ast.walk(node) if isinstance(n, ast.Name)):
        for other, given in arguments(module, name):
            if _of_the_model(other, given) or _given_by_the_model(other, given, depth - 1):
                return True
    return False


def _reaches_loss(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether what a function returns goes backward where the function is called."""
    function = module.function(node)
    if function is None or depth == 0:
        return False
    if without_gradients(module, node):
        return False
    for other, use in uses(module, function):
        around = other.loop(use) or other.scope(use)
        backward = list(other.methods("backward", below=around))
        if any(mentions(other, receiver(c), rf"\b{function.name}\(", 4) for c in backward):
            return True
        if not backward and _reaches_loss(other, use, depth - 1):
            return True
    return False


@rule(
    "G1",
    "this rank's tensor comes back at another rank's place, or without its graph",
    "put this rank's tensor back at its place: parts[rank] = own; or use torch.distributed.nn",
)
def put_back_elsewhere(module: Module) -> Iterator[ast.AST]:
    for call in module.called("all_gather"):
        parts = source(call.args[0]) if call.args else ""
        for node, target in module.assignments(ast.Subscript) if parts else ():
            if source(target.value) != parts or module.scope(node) is not module.scope(call):
                continue
            place = target.slice
            fixed = isinstance(place, ast.Constant) or is_local_rank(module, place)
            if fixed or matches(node.value, r"\.detach\(|\.data\b"):
                yield node


def _put_back(module: Module, parts: str, around: ast.AST) -> bool:
    """Whether a part of a list is replaced."""
    targets = (
        target for n in module.below(around) if isinstance(n, ast.Assign) for target in n.targets
    )
    return any(isinstance(t, ast.Subscript) and source(t.value) == parts for t in targets)


def _of_the_model(module: Module, node: ast.expr) -> bool:
    """Whether a tensor comes out of the wrapped model, with its graph."""
    if matches(node, LETS_GO):
        return False
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and is_ddp(module, part.func):
            return True
        if isinstance(part, ast.Name) and (found := binding(module, part)):
            if found.value is not node and _of_the_model(module, found.value):
                return True
    return False


@rule(
    "G1",
    "the forward goes around DDP, to parts of the model: their gradients are never averaged",
    "call the wrapped model itself",
)
def part_around_ddp(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        part = call.func
        if not isinstance(part, ast.Attribute) or not is_inner(module, part.value):
            continue
        around = module.loop(call) or module.scope(call)
        if part.attr != "forward" and not any(_of_the_model(module, a) for a in call.args):
            called = rf"{re.escape(source(part))}\("
            backward = module.methods("backward", below=around)
            if not without_gradients(module, call) and any(
                mentions(module, receiver(c), called, 4) for c in backward
            ):
                yield call
