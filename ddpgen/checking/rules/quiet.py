"""G1: micro-batches under `no_sync`, and none of them reduces, or another than the last."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import Outcome, conditions, parts
from ddpgen.checking.reading.expressions import constant, matches, method_name, source, stored_in
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding
from ddpgen.checking.reading.windows import backwards
from ddpgen.checking.registry import ERROR, rule

# A program that reduces gradients itself.
_ITSELF = r"all_reduce\([^\n]*grad|grad[^\n]*all_reduce\("


@rule(
    "G1",
    "no micro-batch reduces: whether this is quiet is the same for all of them, the last one too",
    "leave the last micro-batch out of no_sync",
    severity=ERROR,
)
def never_reduced(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_ITSELF):
        return
    yield from _switched_off(module)
    for node, loop, tests in _quiet(module):
        elsewhere = [c for c in backwards(module, module.scope(node)) if module.loop(c) is not loop]
        parts = [part for test in tests for part in parts_of(module, *test)]
        never = any(is_never(test, not outcome, loop) for test, outcome in parts)
        same = tests and not any(_changes(test, loop) for test, _ in tests)
        if never or (same and not elsewhere and module.loop(node) is loop):
            yield node


def _switched_off(module: Module) -> list[ast.AST]:
    """Where a program makes all micro-batches quiet, and none of them loud."""
    name = "require_backward_grad_sync"
    places = [m.assignments(ast.Attribute) for m in module.program.modules]
    values = [node.value for each in places for node, target in each if target.attr == name]
    if any(constant(value) is not False for value in values):
        return []
    return [node for node, t in module.assignments(ast.Attribute) if t.attr == name]


@rule(
    "G1",
    "the last micro-batch is quiet here, and the ones before it reduce: its gradients stay alone",
    "no_sync for all but the last micro-batch",
    severity=ERROR,
)
def last_one_is_quiet(module: Module) -> Iterator[ast.AST]:
    for node, loop, tests in _quiet(module):
        counted = stored_in(loop.target) if isinstance(loop, ast.For) else set[str]()
        parts = [part for test in tests for part in parts_of(module, *test)]
        if any(is_last(t, o, counted) or _is_behind_first(t, o, counted) for t, o in parts):
            yield node


def _is_behind_first(test: ast.expr, outcome: bool, counted: set[str]) -> bool:
    """Whether a condition holds for all turns of a loop but the first: `i > 0`, not `i == 0`."""
    if not isinstance(test, ast.Compare) or source(test.left) not in counted:
        return False
    kinds = (ast.Gt | ast.NotEq) if outcome else ast.Eq
    return isinstance(test.ops[0], kinds) and constant(test.comparators[0]) == 0


def _quiet(module: Module) -> Iterator[tuple[ast.AST, ast.For | ast.While, list[Outcome]]]:
    """Where a loop over micro-batches is quiet: the place, the loop, and the conditions for it."""
    for node in module.nodes:
        if not isinstance(node, ast.With | ast.Assign):
            continue
        loop = module.loop(node)
        if loop is None:
            yield from _quiet_in_a_turn(module, node)
            continue
        around = [(t, o) for t, o in conditions(module, node) if t in module.below(loop)]
        inside = isinstance(node, ast.With) and any(backwards(module, node))
        for item in node.items if inside and isinstance(node, ast.With) else ():
            if (found := _of_context(module, item.context_expr)) is not None:
                yield node, loop, [*around, *found]
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Attribute):
            chosen = target.attr == "require_backward_grad_sync"
            if chosen and not isinstance(node.value, ast.Constant):
                yield node, loop, [*around, (node.value, False)]


def _quiet_in_a_turn(
    module: Module, node: ast.With | ast.Assign
) -> Iterator[tuple[ast.AST, ast.For | ast.While, list[Outcome]]]:
    """The same in a function of one micro-batch: conditions as the loop that calls it has them."""
    function = module.function(node)
    items = node.items if isinstance(node, ast.With) and any(backwards(module, node)) else []
    for item in items if function else ():
        for test, outcome in _of_context(module, item.context_expr) or ():
            for other, given in arguments(module, test):
                loop = module.loop(given) if other is module else None
                if loop is not None:
                    yield node, loop, [(given, outcome)]


def _of_context(module: Module, context: ast.expr) -> list[Outcome] | None:
    """The conditions under which a context is quiet; None where none is."""
    found = binding(module, context) if isinstance(context, ast.Name) else None
    context = found.value if found else context
    if isinstance(context, ast.IfExp):
        first, second = (_is_no_sync(part) for part in (context.body, context.orelse))
        return [(context.test, first)] if first != second else None
    return [] if _is_no_sync(context) else None


def _is_no_sync(node: ast.expr) -> bool:
    called = isinstance(node, ast.Call) and method_name(node) == "no_sync"
    return called or matches(node, r"\.no_sync$")


def parts_of(module: Module, test: ast.expr, outcome: bool, depth: int = 3) -> Iterator[Outcome]:
    """What must hold where a condition has this outcome, names followed."""
    for part, holds in parts(test, outcome):
        found = binding(module, part) if isinstance(part, ast.Name) and depth else None
        if found:
            yield from parts_of(module, found.value, holds, depth - 1)
        else:
            yield part, holds


def _changes(test: ast.expr, loop: ast.For | ast.While) -> bool:
    """Whether a condition may be another one for another turn of a loop."""
    if any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(test)):
        return True
    return bool(stored_in(loop) & {n.id for n in ast.walk(test) if isinstance(n, ast.Name)})


def is_last(test: ast.expr, outcome: bool, counted: set[str]) -> bool:
    """Whether a condition holds for the last turn of a loop alone: `i == steps - 1`."""
    if isinstance(test, ast.BoolOp):  # and for another one, maybe
        either = isinstance(test.op, ast.Or) == outcome
        return either and any(is_last(value, outcome, counted) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    if not isinstance(test.ops[0], ast.Eq if outcome else ast.NotEq | ast.Lt):
        return False
    left, right = test.left, test.comparators[0]
    modulo = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and constant(right) == 0
    ends = matches(right, r" - 1$") and source(left) in counted
    next_one = any(matches(left, rf"\b{name} \+ 1\b") for name in counted)
    behind = constant(right) is None and matches(left, r"^\w+ \+ 1$")
    return ends or (next_one and (modulo or behind))


def is_never(test: ast.expr, outcome: bool, loop: ast.For | ast.While) -> bool:
    """Whether a condition holds in no turn of a loop: `i == steps`, where `i` ends before that."""
    if not isinstance(test, ast.Compare) or not isinstance(loop, ast.For):
        return False
    if not isinstance(test.ops[0], ast.Eq if outcome else ast.NotEq):
        return False
    counter, end = source(test.left), source(test.comparators[0])
    ends = {f"range({end})", f"range(0, {end})"}
    if isinstance(loop.target, ast.Tuple) and re.match(r"len\(\w+\)$", end):
        ends = {f"enumerate({end[4:-1]})"}
    counted = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    return source(counted) == counter and source(loop.iter) in ends
