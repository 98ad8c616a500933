"""Loops over micro-batches, with one optimizer step for several of them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import matches, method_name, operands, receiver, source
from ddpgen.checking.reading.programs import Module, leads_to
from ddpgen.checking.reading.values import binding

# What optimizers and schedulers are called.
OPTIMIZER = r"optim|\b(\w+_)?opts?(_\w+|[A-Z\d]\w*)?\b|scaler"
SCHEDULER = r"sched"


@dataclass(frozen=True)
class Window:
    """A loop over micro-batches, with one optimizer step for several of them.

    Attributes:
        loop: it runs once for each micro-batch.
        test: the condition of the optimizer step within it; None where the step follows the loop.
    """

    loop: ast.For | ast.While
    test: ast.expr | None


def goes_backward(module: Module, call: ast.Call, depth: int = 2) -> bool:
    """Whether a call computes gradients, itself or in a function of the program."""
    return leads_to(module, call, _is_backward, depth)


def _is_backward(module: Module, call: ast.Call) -> bool | None:
    if method_name(call) == "backward":
        return not module.callees(call) or not call.args
    return None


def backwards(module: Module, node: ast.AST) -> Iterator[ast.Call]:
    """Calls within a node that compute gradients."""
    return (call for call in module.calls_below(node) if goes_backward(module, call, 1))


def gone_backward(module: Module, around: ast.AST) -> set[str]:
    """The names of losses that go backward below a node: `loss`, `scale(loss)`, `(loss / n)`."""
    found = set()
    for call in module.methods("backward", below=around):
        value = receiver(call)
        if isinstance(value, ast.Call) and method_name(value) == "scale" and value.args:
            value = value.args[0]
        while isinstance(value, ast.BinOp):
            value = value.left
        found |= {value.id} if isinstance(value, ast.Name) else set()
    return found


def windows(module: Module) -> Iterator[Window]:
    """Loops that accumulate gradients."""
    for backward in backwards(module, module.tree):
        loop = module.loop(backward)
        if loop is None:
            continue
        calls = [call for call in module.calls_below(loop) if updates(module, call, 1)]
        inside = [call for call in calls if not goes_backward(module, call, 1)]
        beside = conditions(module, backward)
        choices = [[c for c in conditions(module, step) if c not in beside] for step in inside]
        for around in choices if all(choices) else ():  # else each turn makes a step
            tests = [(_named(module, test), outcome) for test, outcome in around]
            if counting := [test for test, outcome in tests if _counts(module, test, outcome)]:
                yield Window(loop, counting[0])
                break
        few = isinstance(loop, ast.For) and _over_micro_batches(loop)
        if not inside and few and step_follows(module, loop):
            yield Window(loop, None)


def _over_micro_batches(loop: ast.For) -> bool:
    """Whether a loop says so, or divides by the number of what it goes over."""
    counted = re.match(r"(?:enumerate\()?([\w.]+)", source(loop.iter))
    divides = rf"/=? len\({re.escape(counted[1])}\)" if counted else "(?!)"
    return matches(loop, rf"accum|micro|window|\[:-1\]|{divides}")


def _named(module: Module, test: ast.expr) -> ast.expr:
    """A condition, or what its name stands for."""
    found = binding(module, test) if isinstance(test, ast.Name) else None
    return found.value if found and isinstance(found.statement, ast.Assign) else test


def is_update(call: ast.Call) -> bool:
    """Whether a call of `step` is an optimizer's, not a scheduler's."""
    return matches(receiver(call), OPTIMIZER) and not matches(receiver(call), SCHEDULER)


def _counts(module: Module, test: ast.expr, outcome: bool) -> bool:
    """Whether a condition with this outcome chooses one turn of several."""
    others = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
    named = (binding(module, node) for node in ast.walk(test) if isinstance(node, ast.Name))
    each = [test, *(found.value for found in named if found)]
    return others != outcome and any(operands(n, ast.Mod) for v in each for n in ast.walk(v))


def step_follows(module: Module, loop: ast.For | ast.While) -> bool:
    """Whether the optimizer steps behind a loop."""
    outer = module.loop(loop) or module.scope(loop)
    after = (c for c in module.calls_below(outer) if c.lineno > (loop.end_lineno or 0))
    return any(updates(module, call, 1) for call in after)


def updates(module: Module, call: ast.Call, depth: int) -> bool:
    """Whether a call is an optimizer's step, itself or in a function of the program."""
    return leads_to(module, call, _is_update_step, depth)


def _is_update_step(_: Module, call: ast.Call) -> bool | None:
    return (method_name(call) == "step" and is_update(call)) or None


def each_time(module: Module, call: ast.AST, loop: ast.AST) -> bool:
    """Whether a statement of a loop runs in each turn, under no condition."""
    inside = {*module.below(loop)} - {getattr(loop, "test", None)}
    return module.loop(call) is loop and not any(t in inside for t, _ in conditions(module, call))


def step_functions(module: Module, window: Window) -> list[ast.AST]:
    """The functions of this module that a window's loop calls for one micro-batch."""
    calls = [call for call in backwards(module, window.loop) if call.args or call.keywords]
    found = [f for call in calls for m, f in module.callees(call) if m is module]
    return [f for f in found if not any(map(is_update, module.methods("step", below=f)))]
