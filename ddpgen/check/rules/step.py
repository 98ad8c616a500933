"""G3, G4, G5, G7, G8, G10: the optimizer step and its micro-batches."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpgen.check.guards import conditions
from ddpgen.check.registry import rule
from ddpgen.check.rules.gradients import scalers
from ddpgen.check.source import (
    Function,
    Module,
    constant,
    exclusive,
    keyword,
    matches,
    receiver,
    source,
)
from ddpgen.check.values import DDP, binding

_OPTIMIZER = r"optim|\bopt\b|scaler"
_SCHEDULER = r"sched"


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
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        return not module.program.callees(module, call) or not call.args
    return depth > 0 and any(
        isinstance(inner, ast.Call) and goes_backward(other, inner, depth - 1)
        for other, function in module.program.callees(module, call)
        for inner in other.below(function)
    )


def _backwards(module: Module, node: ast.AST) -> Iterator[ast.Call]:
    for call in module.below(node):
        if isinstance(call, ast.Call) and goes_backward(module, call, 1):
            yield call


def windows(module: Module) -> Iterator[Window]:
    """Loops that accumulate gradients."""
    for backward in _backwards(module, module.tree):
        loop = module.loop(backward)
        if loop is None:
            continue
        inside = [step for step in module.methods("step", below=loop) if _is_update(step)]
        for step in inside:
            tests = [t for t, outcome in conditions(module, step) if outcome and _counts(t)]
            if tests and not any(t is tests[0] for t, _ in conditions(module, backward)):
                yield Window(loop, tests[0])
                break
        few = isinstance(loop, ast.For) and matches(loop, r"accum|micro|window|\[:-1\]")
        if not inside and few and _step_follows(module, loop):
            yield Window(loop, None)


def _is_update(call: ast.Call) -> bool:
    return matches(receiver(call), _OPTIMIZER) and not matches(receiver(call), _SCHEDULER)


def _counts(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))


def _step_follows(module: Module, loop: ast.For | ast.While) -> bool:
    outer = module.loop(loop) or module.scope(loop)
    return any(
        call.lineno > (loop.end_lineno or 0) and _updates(module, call)
        for call in module.below(outer)
        if isinstance(call, ast.Call)
    )


def _updates(module: Module, call: ast.Call) -> bool:
    """Whether a call is an optimizer step, itself or in a function of the program."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "step" and _is_update(call):
        return True
    return any(
        _is_update(step)
        for other, function in module.program.callees(module, call)
        for step in other.methods("step", below=function)
    )


@rule(
    "G3",
    "every micro-batch reduces all gradients, though only the last one's sum is used",
    "put forward and backward of all but the last micro-batch under model.no_sync()",
)
def no_no_sync(module: Module) -> Iterator[ast.AST]:
    quiet = ("no_sync", "require_backward_grad_sync", "set_requires_gradient_sync", "accumulate")
    if any(name in module.program.references for name in quiet) or DDP not in module.program.text:
        return
    for window in windows(module):
        yield next(_backwards(module, window.loop))


@rule(
    "G3",
    "the forward is outside no_sync: DDP decides there whether this backward reduces",
    "put forward and backward under no_sync together",
)
def forward_outside(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.With) and any(
            matches(i.context_expr, r"no_sync") for i in node.items
        ):
            inside = {
                n.id
                for statement in node.body
                for n in module.below(statement)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            for call in module.methods("backward", below=node):
                value = receiver(call)
                names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                found = isinstance(value, ast.Name) and binding(module, value)
                if found and found.line < node.lineno and not names & inside:
                    yield call


@rule(
    "G3",
    "the window is off by one: the first step comes after a single micro-batch",
    "count from one: (i + 1) % steps == 0",
)
def off_by_one(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        counter = _counter(window.loop)
        for node in module.below(window.test) if window.test else ():
            if (
                isinstance(node, ast.Compare)
                and constant(node.comparators[0]) == 0
                and isinstance(node.left, ast.BinOp)
                and isinstance(node.left.op, ast.Mod)
                and isinstance(node.left.left, ast.Name)
                and node.left.left.id == counter
            ):
                yield node


def _counter(loop: ast.For | ast.While) -> str:
    """The variable of a loop that counts from zero."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return ""
    name, target = source(loop.iter.func), loop.target
    if name == "enumerate" and len(loop.iter.args) == 1 and not loop.iter.keywords:
        target = target.elts[0] if isinstance(target, ast.Tuple) else target
    elif name != "range" or len(loop.iter.args) > 1:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


@rule(
    "G3",
    "static_graph=True does not go with no_sync: it stops reducing, or raises",
    "leave static_graph out",
)
def static_graph(module: Module) -> Iterator[ast.AST]:
    for call in module.called(DDP):
        if constant(keyword(call, "static_graph")) is True and "no_sync" in module.program.names:
            yield call


@rule(
    "G4",
    "gradients are cleared between backward and step: the update uses zeros",
    "clear them after the step, or before the first backward",
)
def cleared_before_step(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield from _between(module, block)


def _between(module: Module, block: list[ast.stmt]) -> Iterator[ast.AST]:
    yield from _just_before(module, block)
    seen, cleared = False, None
    for statement in block:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if list(module.methods("step", below=statement)) and matches(statement, _OPTIMIZER):
            if cleared:
                yield cleared
            seen, cleared = False, None
        if isinstance(statement, ast.Expr):
            if seen and (calls := list(module.methods("zero_grad", below=statement))):
                cleared = calls[0]
            if list(module.methods("backward", below=statement)):
                seen, cleared = True, None


def _just_before(module: Module, block: list[ast.stmt]) -> Iterator[ast.AST]:
    """Cleared, then unscaled or clipped, then used."""
    for place, statement in enumerate(block):
        cleared = list(module.methods("zero_grad", below=statement))
        if not isinstance(statement, ast.Expr) or not cleared:
            continue
        for number, following in enumerate(block[place + 1 :]):
            if list(module.methods("step", below=following)) and matches(following, _OPTIMIZER):
                if number:
                    yield cleared[0]
                break
            if not matches(following, r"unscale_\(|clip_grad"):
                break


@rule(
    "G4",
    "gradients are cleared for every micro-batch: only the last one counts",
    "clear them once per optimizer step, after it",
)
def cleared_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.methods("zero_grad", below=window.loop):
            if _each_time(module, call, window.loop):
                yield call


def _each_time(module: Module, call: ast.AST, loop: ast.AST) -> bool:
    """Whether a statement belongs to the loop's own body, under no condition."""
    return module.parents[module.statement(call)] is loop and module.loop(call) is loop


@rule(
    "G5",
    "what is left at the end of an epoch makes no step, and leaks into the next epoch",
    "step at the last micro-batch too, and divide by the real number in the window",
)
def window_left_over(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        test, loop = window.test, window.loop
        if not isinstance(test, ast.Compare) or not isinstance(loop, ast.For):
            continue
        endless = not matches(loop.iter, r"^enumerate\(\w*(load|batch|data)")
        if not endless and module.loop(loop) and not _step_follows(module, loop):
            if not re.search(r"drop_last=True|islice\(", module.program.text):
                yield test


@rule(
    "G5",
    "the last, shorter window is dropped: its samples are never learnt from",
    "step with what is left, and divide by the real number in the window",
)
def window_dropped(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.If) and isinstance(test := node.test, ast.Compare):
            sized = re.fullmatch(r"len\((\w+)\) (<|!=) [\w.]+", source(test))
            leaves = isinstance(node.body[-1], ast.Break | ast.Continue | ast.Return)
            if sized and leaves and module.loop(node):
                measured = test.left.args[0] if isinstance(test.left, ast.Call) else test.left
                found = binding(module, measured)
                if found and matches(found.value, r"islice\(|batched\("):
                    yield node


@rule(
    "G7",
    "the gradients are still scaled here, so that the limit means something else in every step",
    "call scaler.unscale_(optimizer) first",
)
def clipped_scaled(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_", "clip_grad_value_"):
        scope = module.scope(call)
        steps = [
            step
            for step in module.methods("step", "update", below=scope)
            if matches(step.func, r"scaler") and not exclusive(module, step, call)
        ]
        unscaled = [u for u in module.methods("unscale_", below=scope) if u.lineno < call.lineno]
        if steps and not unscaled:
            yield call


@rule(
    "G7",
    "every micro-batch clips what has been added up so far",
    "clip once, after the last micro-batch and before the step",
)
def clipped_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.called("clip_grad_norm_", "clip_grad_value_"):
            if _each_time(module, call, window.loop):
                yield call


@rule(
    "G7",
    "a generator of parameters is used up after its first use: this clips nothing",
    "keep a list, or call model.parameters() again",
)
def exhausted(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_"):
        given = keyword(call, "parameters", 0)
        if not isinstance(given, ast.Name):
            continue
        found = binding(module, given)
        if found and matches(found.value, r"^(filter\(.*\)|[\w.]+\.parameters\(\)|\(.* for .*\))$"):
            if isinstance(found.statement, ast.Assign):
                again = module.loop(call) is not None
                reads = [
                    n
                    for n in module.below(module.scope(found.statement))
                    if isinstance(n, ast.Name) and n.id == given.id and isinstance(n.ctx, ast.Load)
                ]
                if (again and module.loop(found.statement) is None) or len(reads) > 1:
                    yield call


@rule(
    "G8",
    "the schedule advances with every micro-batch, the optimizer does not",
    "step the scheduler where the optimizer steps",
)
def scheduled_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.methods("step", below=window.loop):
            if matches(receiver(call), _SCHEDULER) and _each_time(module, call, window.loop):
                yield call


@rule(
    "G8",
    "the schedule advances in the function of one micro-batch, the optimizer steps elsewhere",
    "step the scheduler beside the optimizer",
)
def scheduled_with_backward(module: Module) -> Iterator[ast.AST]:
    for backward in module.methods("backward"):
        function = module.function(backward)
        if function and not any(map(_is_update, module.methods("step", below=function))):
            for call in module.methods("step", below=function):
                if matches(receiver(call), _SCHEDULER):
                    yield call


@rule(
    "G8",
    "the schedule advances although the scaler may have skipped the step",
    "step the scheduler only if scaler.get_scale() has not become smaller",
)
def scheduled_after_skip(module: Module) -> Iterator[ast.AST]:
    if "get_scale" in module.program.names or not any(
        list(scalers(m)) for m in module.program.modules
    ):
        return
    for step in module.methods("step"):
        if matches(step.func, r"scaler"):
            block = module.parents[module.statement(step)]
            for call in module.methods("step", below=block):
                same = module.parents[module.statement(call)] is block
                if same and matches(call.func, _SCHEDULER):
                    yield call


@rule(
    "G10",
    "this rank skips by itself, and the others wait for it in the next reduction",
    "reduce the condition over all ranks, and skip together",
)
def skipped_alone(module: Module) -> Iterator[ast.AST]:
    reduces = re.compile(r"all_reduce|all_gather|reduce_|broadcast|over_ranks")
    for node in module.nodes:
        if not isinstance(node, ast.If | ast.ExceptHandler):
            continue
        loop = module.loop(node) or module.function(node)
        if loop is None or not list(module.methods("backward", below=loop)):
            continue
        if isinstance(node, ast.If) and matches(node.test, r"isnan|isinf|isfinite"):
            before = [s for s in loop.body if s.lineno <= node.lineno]
            kinds = ast.Return if isinstance(loop, Function) else ast.Continue
            leaves = any(isinstance(n, kinds) for s in node.body for n in ast.walk(s))
            if leaves and not any(reduces.search(source(s)) for s in before):
                yield node
        if isinstance(node, ast.ExceptHandler) and matches(
            node.type, r"RuntimeError|OutOfMemory|^Exception$"
        ):
            tried = module.parents[node]
            if list(module.methods("backward", below=tried)) and not any(
                isinstance(n, ast.Raise) for n in module.below(node)
            ):
                yield node
