"""K8: loops of the training that one rank leaves, and what one rank comes to alone."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import agreed
from ddpgen.checking.reading.conditions import alternatives, conditions
from ddpgen.checking.reading.expressions import Function, constant, last_part, matches, source
from ddpgen.checking.reading.guards import is_zero, zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import bindings, follows, stands_for
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.alone import WRAPPED
from ddpgen.checking.rules.ranks import collectives, is_collective

_CLOCK = r"(?<!\w)(time|monotonic|perf_counter)(_ns)?\(\)|datetime\.(now|utcnow)\("


@rule(
    "K8",
    "each rank reads its own clock: one leaves the training a step early, and the others wait",
    "let rank 0 decide and broadcast that, or reduce the decision over all ranks",
)
def left_by_own_clock(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.While):
            loop: ast.AST | None = node
        elif isinstance(node, ast.If):
            loop = module.loop(node)
            if not any(isinstance(statement, ast.Break | ast.Return) for statement in node.body):
                continue
        else:
            continue
        tests = [test for test in alternatives(node.test) if _reads_clock(module, test)]
        if loop is None or not tests:
            continue
        trains = any(goes_backward(module, call) for call in module.calls_below(loop))
        if trains and not all(agreed(module, test) for test in tests):
            yield node


def _reads_clock(module: Module, test: ast.expr) -> bool:
    return any(follows(module, part, _is_clock) for part in _parts(test))


@rule(
    "K8",
    "each rank reads its own clock: one comes here a step early, and waits for the others",
    "let rank 0 decide and broadcast that, or reduce the decision over all ranks",
)
def joined_by_own_clock(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        loop = module.loop(node) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or loop is None or zero_guard(module, node) is not None:
            continue
        trains = any(goes_backward(module, call) for call in module.calls_below(loop))
        if trains and _by_clock(module, node.test) and not agreed(module, node.test):
            calls = [call for statement in node.body for call in module.calls_below(statement)]
            if any(_joins(module, call) for call in calls):
                yield node


def _joins(module: Module, call: ast.Call) -> bool:
    """Whether all ranks must take part in a call that this rank makes."""
    if zero_guard(module, call) is not None:
        return False
    inside = (collectives(other, function) for other, function in module.callees(call))
    return is_collective(module, call) or any(inside)


def _by_clock(module: Module, test: ast.expr, depth: int = 2) -> bool:
    """Whether a time decides, or a condition to which a name in the test was set."""
    for part in _parts(test):
        if follows(module, part, _is_clock):
            return True
        found = [(other, value) for other, value in stands_for(module, part) if depth]
        joined = [(other, value) for other, value in found if isinstance(value, ast.BoolOp)]
        if any(_by_clock(other, value, depth - 1) for other, value in joined):
            return True
    return False


@rule(
    "K8",
    "rank 0 alone leaves the training here, and the others wait for it in the next reduction",
    "let rank 0 broadcast the decision, and leave on all ranks",
)
def left_by_rank_0(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(WRAPPED):
        return
    for node in module.nodes:
        if not isinstance(node, ast.Break | ast.Return) or not (loop := module.loop(node)):
            continue
        own = any(test in module.below(loop) for test, _ in conditions(module, node))
        trains = any(goes_backward(module, call) for call in module.calls_below(loop))
        if trains and own and zero_guard(module, node) is not None:
            if not _tells_others(module, node):
                yield node


@rule(
    "K8",
    "rank 0 alone sets this flag: it leaves the training, and the others wait for it",
    "let rank 0 broadcast the decision, and leave on all ranks",
)
def left_by_flag_of_rank_0(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes if module.program.says(WRAPPED) else ():
        loop = module.loop(node) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name | ast.Attribute):
            continue
        leaves = any(isinstance(n, ast.Break | ast.Return) for n in node.body)
        if loop and leaves and zero_guard(module, node) is None and _of_rank_0(module, node.test):
            trains = any(goes_backward(module, call, 3) for call in module.calls_below(loop))
            if trains and not agreed(module, node.test):
                yield node


def _of_rank_0(module: Module, flag: ast.Name | ast.Attribute) -> bool:
    """Whether rank 0 alone gives a flag a value that is not written out."""
    modules = module.program.modules if isinstance(flag, ast.Attribute) else [module]
    wanted = last_part(source(flag))
    found = []
    for other in modules:
        for (place, text), values in bindings(other).items():
            here = isinstance(flag, ast.Attribute) or place is module.scope(flag)
            same = text.rpartition(".")[2] == wanted and ("." in text) == isinstance(
                flag, ast.Attribute
            )
            found += [(other, b) for b in values if here and same]
    chosen = [(m, b) for m, b in found if constant(b.value) not in (False, None)]
    chosen += [(m, b) for m, b in found if not isinstance(b.value, ast.Constant)]
    return bool(chosen) and all(zero_guard(m, b.statement) is not None for m, b in chosen)


@rule(
    "K8",
    "all ranks but rank 0 leave the training here, and rank 0 waits for them in the next reduction",
    "let all ranks go on, and rank 0 alone do what others need not",
)
def left_by_all_others(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes if module.program.says(WRAPPED) else ():
        loop = module.loop(node) if isinstance(node, ast.Break | ast.Return) else None
        if isinstance(node, ast.Break | ast.Return) and loop:
            inside = [pair for pair in conditions(module, node) if pair[0] in module.below(loop)]
            trains = any(goes_backward(module, call) for call in module.calls_below(loop))
            if trains and any(_of_others(test, outcome) for test, outcome in inside):
                if not _tells_others(module, node):
                    yield node


def _of_others(test: ast.expr, outcome: bool) -> bool:
    """Whether a condition holds on no rank 0."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _of_others(test.operand, not outcome)
    if isinstance(test, ast.BoolOp):
        joined = isinstance(test.op, ast.And) == outcome
        return joined and any(_of_others(value, outcome) for value in test.values)
    return is_zero(test, not outcome)


@rule(
    "K8",
    "rank 0 alone ends here, as if all were well, and the others wait for it",
    "let rank 0 broadcast the decision, and end all ranks",
)
def ended_by_rank_0(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(WRAPPED):
        return
    for call, name in module.calls:
        code = constant(call.args[0]) if call.args else 0
        if name in ("sys.exit", "exit", "quit", "os._exit") and code == 0:
            scope = module.calls_below(module.scope(call))
            trains = any(goes_backward(module, c) for c in scope if c.lineno > call.lineno)
            if trains and zero_guard(module, call) is not None:
                if not _tells_others(module, module.statement(call)):
                    yield call


@rule(
    "K8",
    "reduce() gives the sum to one rank, and all decide by what they have: they leave one by one",
    "use all_reduce(), which gives the sum to all ranks",
)
def left_by_sum_of_one_rank(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        loop = module.loop(node) if isinstance(node, ast.If) else None
        leaves = isinstance(node, ast.If) and any(isinstance(s, ast.Break) for s in node.body)
        if isinstance(node, ast.If) and loop and leaves and zero_guard(module, node) is None:
            if any(goes_backward(module, call) for call in module.calls_below(loop)):
                if _on_one_rank(module, node.test):
                    yield node


def _on_one_rank(module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether an expression is about something that was reduced to one rank."""
    functions = [f for call in module.calls_below(node) for f in module.callees(call)]
    if any(_reduces(other, function) for other, function in functions):
        return True
    names = [n for n in module.below(node) if isinstance(n, ast.Name | ast.Attribute)]
    found = (value for name in names if depth for value in stands_for(module, name))
    return any(_on_one_rank(other, value, depth - 1) for other, value in found)


def _reduces(module: Module, function: Function) -> bool:
    """Whether a function reduces to one rank, and to all ranks nothing."""
    names = [module.name(call.func) for call in module.calls_below(function)]
    return "torch.distributed.reduce" in names and not any("all_" in name for name in names)


def _tells_others(module: Module, node: ast.stmt) -> bool:
    """Whether a collective comes before a statement, in the same branch."""
    branch = module.calls_below(module.parents[node])
    return any(is_collective(module, call) and call.lineno < node.lineno for call in branch)


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """The conditions that a condition is made of."""
    if isinstance(test, ast.BoolOp):
        yield from (part for value in test.values for part in _parts(value))
    elif isinstance(test, ast.UnaryOp):
        yield from _parts(test.operand)
    elif isinstance(test, ast.Compare):
        yield from (test.left, *test.comparators)
    else:
        yield test


def _is_clock(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether a time of this process, or a comparison of times, is meant."""
    if isinstance(node, ast.BinOp | ast.Compare):
        return True if matches(node, _CLOCK) else node.left
    if isinstance(node, ast.Call) and not module.callees(node):
        return matches(node, rf"^([\w.]+\.)?({_CLOCK})")
    return None if isinstance(node, ast.Name | ast.Attribute | ast.Call) else False
