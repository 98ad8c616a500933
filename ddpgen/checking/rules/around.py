"""G1: forwards that go around DDP."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import matches, names_in, receiver, source, stored_in
from ddpgen.checking.reading.guards import NO_GRADIENTS
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.gradients import is_inner, with_gradients


@rule(
    "G1",
    "the forward goes around DDP: these gradients are never averaged, and the ranks drift apart",
    "call the wrapped model itself",
)
def forward_around_ddp(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        called = call.func
        if isinstance(called, ast.Attribute) and called.attr == "forward":
            called = called.value
        handed = [a for place, a in enumerate(call.args) if _runs(module, call, place)]
        inner = any(is_inner(module, node) for node in (called, *handed))
        of_inputs = any(module.methods("grad", below=module.scope(call)))  # autograd.grad(...)
        if inner and not of_inputs and with_gradients(module, call):
            if _goes_backward(module, call):
                yield call


def _goes_backward(module: Module, call: ast.Call) -> bool:
    """Whether the function of a call goes backward, or gives the loss to one that does."""
    own = isinstance(call.func, ast.Attribute)  # a parameter may be another network elsewhere
    function = module.function(call) if own else None
    for other, use in uses(module, function) if function else ():
        stored, losses = stored_in(other.statement(use)), other.methods("backward")
        near = [c for c in losses if other.scope(c) is other.scope(use)]
        if any(stored & names_in(receiver(c)) or use in other.below(c) for c in near):
            return True
    return any(module.methods("backward", below=module.scope(call)))


def _runs(module: Module, call: ast.Call, place: int, depth: int = 2) -> bool:
    """Whether a function of the program calls what it is given at a place, with gradients."""
    for other, function in module.callees(call):
        of_inputs = any(other.methods("grad", below=function))  # autograd.grad(...)
        if of_inputs or any(matches(d, NO_GRADIENTS) for d in function.decorator_list):
            continue
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        method = isinstance(other.parents[function], ast.ClassDef)
        if place + method >= len(names):
            continue
        name = names[place + method]
        for inner in other.calls_below(function):
            given = [number for number, a in enumerate(inner.args) if source(a) == name]
            if source(inner.func) == name:
                return True
            if depth and any(_runs(other, inner, number, depth - 1) for number in given):
                return True
    return False
