"""G3, G4, G5, G7, G8: several micro-batches for one optimizer step."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import repeated, uses
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    matches,
    names_in,
    operands,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.roles import is_schedule
from ddpgen.checking.reading.values import DDP, binding
from ddpgen.checking.reading.windows import (
    backwards,
    each_time,
    is_update,
    step_follows,
    step_functions,
    windows,
)
from ddpgen.checking.registry import ERROR, WARNING, rule


@rule(
    "G3",
    "every micro-batch reduces all gradients, though only the last one's sum is used",
    "put forward and backward of all but the last micro-batch under model.no_sync()",
)
def no_no_sync(module: Module) -> Iterator[ast.AST]:
    quiet = ("no_sync", "require_backward_grad_sync", "set_requires_gradient_sync")
    if any(map(module.program.references, quiet)) or not module.program.calls(DDP):
        return
    if any(matches(c, r"\baccumulate\(") for m in module.program.modules for c in _contexts(m)):
        return  # of somebody's
    for window in windows(module):
        yield next(backwards(module, window.loop))


def _contexts(module: Module) -> Iterator[ast.expr]:
    """What the statements of a module enter."""
    for node in module.nodes:
        if isinstance(node, ast.withitem):
            yield node.context_expr


@rule(
    "G3",
    "the forward is outside no_sync: DDP decides there whether this backward reduces",
    "put forward and backward under no_sync together",
)
def forward_outside(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        items = node.items if isinstance(node, ast.With) else []
        quiet = any(may_be_quiet(module, item.context_expr) for item in items)
        if isinstance(node, ast.With) and quiet:
            for call in module.methods("backward", below=node):
                made = [binding(module, n) for n in _losses(module, receiver(call))]
                early = any(found and found.line < node.lineno for found in made)
                if early and not names_in(receiver(call)) & stored_in(*node.body):
                    yield call


def may_be_quiet(module: Module, context: ast.expr) -> bool:
    """Whether a context may be no_sync, itself or by what its name was set to."""
    found = binding(module, context) if isinstance(context, ast.Name) else None
    return matches(found.value if found else context, "no_sync")


def _losses(module: Module, value: ast.expr) -> list[ast.expr]:
    """What goes backward: a name, or names of losses in an expression."""
    if isinstance(value, ast.Name):
        return [value]
    return [n for n in module.below(value) if isinstance(n, ast.Name) and "loss" in n.id]


@rule(
    "G3",
    "the window is off by one: the first step comes after a single micro-batch",
    "count from one: (i + 1) % steps == 0",
    severity=ERROR,
)
def off_by_one(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        counter = _counter(window.loop)
        for node in module.below(window.test) if window.test else ():
            if isinstance(node, ast.Compare) and constant(node.comparators[0]) == 0:
                counted = operands(node.left, ast.Mod)[:1]
                if counter and counter in map(source, counted):
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
    "the loop leaves out more than the last micro-batch, and only the last one follows",
    "loop over batches[:-1], then run batches[-1]",
    severity=ERROR,
)
def left_out_between(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Subscript):
            cut = re.fullmatch(r"(.+)\[:-([2-9])\]", source(node.iter))
            rest = source(module.scope(node)).replace(source(node.iter), "")
            if cut and f"{cut[1]}[-1]" in rest and f"{cut[1]}[-{cut[2]}" not in rest:
                if any(backwards(module, node)):
                    yield node.iter


@rule(
    "G4",
    "gradients are cleared for every micro-batch: only the last one counts",
    "clear them once per optimizer step, after it",
)
def cleared_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.methods("zero_grad", below=window.loop):
            if each_time(module, call, window.loop):
                yield call
        for function in step_functions(module, window):
            yield from module.methods("zero_grad", below=function)


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
        endless = not matches(loop.iter, r"^enumerate\([\w.]*(load|batch|data)")
        if not endless and repeated(module, loop) and not step_follows(module, loop):
            counts = any(operands(node, ast.Mod) for node in ast.walk(test))
            if counts and not module.program.says(r"islice\("):
                yield test


@rule(
    "G5",
    "the last, shorter window is dropped: its samples are never learnt from",
    "step with what is left, and divide by the real number in the window",
    severity=WARNING,
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
    "G5",
    "what is left when the loop ends is never given on: its samples are never learnt from",
    "step with what is left, and divide by the real number in the window",
    severity=WARNING,
)
def rest_dropped(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        for loop in (n for n in function.body if isinstance(n, ast.For)):
            for node in (n for n in loop.body if isinstance(n, ast.If)):
                full = re.fullmatch(r"len\((\w+)\) (==|>=) [\w.]+", source(node.test))
                given = any(isinstance(n, ast.Yield) for n in module.below(node))
                if not full or not given or not matches(loop, rf"\b{full[1]}\.append\("):
                    continue
                rest = function.body[function.body.index(loop) + 1 :]
                if not any(matches(n, rf"\b{full[1]}\b") for n in rest):
                    if _feeds_training(module, function):
                        yield node.test


def _feeds_training(module: Module, function: Function) -> bool:
    """Whether a loop that trains goes over what a function gives."""
    for other, use in uses(module, function):
        loops = (n for n in other.above(use) if isinstance(n, ast.For))
        if any(use in other.below(n.iter) and any(backwards(other, n)) for n in loops):
            return True
    return False


@rule(
    "G7",
    "every micro-batch clips what has been added up so far",
    "clip once, after the last micro-batch and before the step",
)
def clipped_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.called("clip_grad_norm_", "clip_grad_value_"):
            if each_time(module, call, window.loop):
                yield call
            if module.function(call) in step_functions(module, window):
                yield call


@rule(
    "G8",
    "the schedule advances with every micro-batch, the optimizer does not",
    "step the scheduler where the optimizer steps",
)
def scheduled_each_time(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.methods("step", below=window.loop):
            if is_schedule(module, receiver(call)) and each_time(module, call, window.loop):
                yield call


@rule(
    "G8",
    "the schedule advances in the function of one micro-batch, the optimizer steps elsewhere",
    "step the scheduler beside the optimizer",
)
def scheduled_with_backward(module: Module) -> Iterator[ast.AST]:
    for backward in module.methods("backward"):
        function = module.function(backward)
        if function and not any(map(is_update, module.methods("step", below=function))):
            for call in module.methods("step", below=function):
                if is_schedule(module, receiver(call)):
                    yield call
