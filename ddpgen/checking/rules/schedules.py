"""G8: schedules whose length is counted in something else than their steps."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    keyword,
    last_part,
    matches,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.roles import is_schedule
from ddpgen.checking.reading.values import binding, follows, mentions, results, stands_for
from ddpgen.checking.reading.windows import Window, backwards, is_update, windows
from ddpgen.checking.registry import WARNING, rule

# The arguments that say after how many steps a schedule ends, and their places.
_LENGTHS = {
    "OneCycleLR": (("total_steps", 2), ("steps_per_epoch", 4)),
    "CosineAnnealingLR": (("T_max", 1),),
    "LinearLR": (("total_iters", 3),),
    "PolynomialLR": (("total_iters", 1),),
    "get_linear_schedule_with_warmup": (("num_training_steps", 2),),
    "get_cosine_schedule_with_warmup": (("num_training_steps", 2),),
    "get_polynomial_decay_schedule_with_warmup": (("num_training_steps", 2),),
    "get_scheduler": (("num_training_steps", 3),),
}
_EPOCHS = re.compile(r"(num|n|max|total)?_?(train(ing)?_)?epochs?", re.IGNORECASE)
_BATCHES = r"len\([\w.]*(load|_dl\b)[\w.]*\)|(steps|iters|iterations|batches)_per_epoch"
_SHARED_OUT = r"/|ceil|world|accum"


def _advanced(module: Module) -> Iterator[tuple[ast.Call, ast.For | ast.While, ast.expr]]:
    """Calls that advance a schedule by one, the loop around each, and the schedule's length."""
    for call in module.methods("step"):
        loop = module.loop(call)
        if loop and not call.args and is_schedule(module, receiver(call)):
            for length in _lengths(module, receiver(call)):
                yield call, loop, length


def _lengths(module: Module, node: ast.expr, depth: int = 4) -> list[ast.expr]:
    """The arguments that say how long a schedule is; none where it is made elsewhere."""
    if not isinstance(node, ast.Call):
        found = stands_for(module, node)
    elif last_part(module.name(node.func)) == "LambdaLR":
        return _outer_numbers(module, keyword(node, "lr_lambda", 1))
    elif known := _LENGTHS.get(last_part(module.name(node.func))):
        given = (keyword(node, name, place) for name, place in known)
        return [value for value in given if value is not None]
    else:
        found = results(module, node)
    return [n for m, v in found if m is module and depth for n in _lengths(m, v, depth - 1)]


def _outer_numbers(module: Module, factor: ast.expr | None) -> list[ast.expr]:
    """The numbers from outside that a function of the step uses, such as the number of steps."""
    if isinstance(factor, ast.Call) and matches(factor.func, r"\bpartial$"):
        return [*factor.args[1:], *(each.value for each in factor.keywords)]
    inside: list[ast.AST] = [factor] if isinstance(factor, ast.Lambda) else []
    if isinstance(factor, ast.Name):
        inside += module.functions.get(factor.id, [])
    names = [n for node in inside for n in module.below(node) if isinstance(n, ast.Name)]
    found = [(name, binding(module, name)) for name in names if isinstance(name.ctx, ast.Load)]
    return [n for n, b in found if b and isinstance(b.value, ast.BinOp | ast.Call)]


def _goes_over_epochs(loop: ast.For | ast.While) -> bool:
    return matches(loop.target if isinstance(loop, ast.For) else loop.test, r"\bep\b|epoch")


@rule(
    "G8",
    "the schedule advances once per epoch, and is as long as all steps: it hardly begins",
    "step the scheduler behind each optimizer step, or give its length in epochs",
)
def epochs_of_steps(module: Module) -> Iterator[ast.AST]:
    for call, loop, length in _advanced(module):
        inner = [backward for backward in backwards(module, loop) if backward.lineno < call.lineno]
        if _goes_over_epochs(loop) and inner and all(_is_deeper(module, b, loop) for b in inner):
            if mentions(module, length, _BATCHES):
                yield call


def _is_deeper(module: Module, backward: ast.Call, loop: ast.AST) -> bool:
    """Whether another loop lies between a loop and what computes gradients in it."""
    if module.loop(backward) is not loop:
        return True
    functions = [(other, function) for other, function in module.callees(backward)]
    return any(other.loop(b) for other, f in functions for b in backwards(other, f))


@rule(
    "G8",
    "the schedule advances with every step, and is as long as the number of epochs",
    "give its length in steps: epochs * len(loader)",
)
def steps_of_epochs(module: Module) -> Iterator[ast.AST]:
    for call, loop, length in _advanced(module):
        each = any(not _is_deeper(module, b, loop) for b in backwards(module, loop))
        if each and not _goes_over_epochs(loop) and follows(module, length, _is_epochs):
            if not _at_the_end(module, call, loop):
                yield call


def _at_the_end(module: Module, call: ast.Call, loop: ast.AST) -> bool:
    """Whether a condition in a loop chooses one turn, and not one of several."""
    tests = [test for test, _ in conditions(module, call) if test in module.below(loop)]
    return any(not any(operands(n, ast.Mod) for n in ast.walk(test)) for test in tests)


def _is_epochs(_: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Name | ast.Attribute) and _EPOCHS.fullmatch(last_part(source(node))):
        return True
    return None if isinstance(node, ast.Name | ast.Attribute) else False


@rule(
    "G8",
    "the schedule is as long as all micro-batches, and advances once per window of several",
    "divide its length by the number of micro-batches per optimizer step",
    severity=WARNING,
)
def windows_of_micro_batches(module: Module) -> Iterator[ast.AST]:
    for window in windows(module):
        for call in module.methods("step"):
            if not is_schedule(module, receiver(call)) or not _per_window(module, call, window):
                continue
            for length in _lengths(module, receiver(call)):
                whole = mentions(module, length, _BATCHES)
                if whole and not mentions(module, length, _SHARED_OUT):
                    yield call


def _per_window(module: Module, call: ast.Call, window: Window) -> bool:
    """Whether a call comes once for each window of several micro-batches of the loader."""
    if window.test is None:
        outer = module.loop(window.loop)
        if outer is None or module.loop(call) is not outer or not isinstance(outer, ast.For):
            return False
        calls = module.calls_below(outer.iter)
        collecting = [f for c in calls for _, f in module.callees(c) if matches(f, r"\.append\(")]
        return bool(collecting) or matches(outer.iter, r"\b(batched|chunked)\(")
    if module.loop(call) is window.loop:
        return _beside_update(module, call)
    inside = [f for c in module.calls_below(window.loop) for _, f in module.callees(c)]
    function = module.function(call)
    updates = function in inside and any(map(is_update, module.methods("step", below=function)))
    return updates and not any(backwards(module, function)) if function else False


@rule(
    "G8",
    "len(loader) is this rank's share already: with the ranks the length is another",
    "count the steps that the loop makes",
)
def share_by_ranks(module: Module) -> Iterator[ast.AST]:
    if not module.program.called("DistributedSampler"):
        return
    for call, _ in module.calls:
        for length in _lengths(module, call):
            if mentions(module, length, r"len\([\w.]*load\w*\)") and _by_ranks(module, length):
                if not operands(length, ast.Mult):
                    yield length


def _by_ranks(module: Module, node: ast.expr, depth: int = 3) -> bool:
    """Whether a length is multiplied or divided by the number of ranks as a whole."""
    for operator in (ast.Mult, ast.FloorDiv, ast.Div):
        for side in operands(node, operator):
            if matches(side, r"^(\w+\.)*(world(_size)?|n_?(gpus|ranks)|get_world_size\(\))$"):
                return True
            if isinstance(side, ast.BinOp) and _by_ranks(module, side, depth):
                return True
    found = binding(module, node) if isinstance(node, ast.Name) and depth else None
    return found is not None and _by_ranks(module, found.value, depth - 1)


def _beside_update(module: Module, call: ast.Call) -> bool:
    """Whether a call and the optimizer's step are in one branch."""
    branch = module.parents[module.statement(call)]
    return isinstance(branch, ast.If) and any(map(is_update, module.methods("step", below=branch)))


@rule(
    "G8",
    "the schedule is as long as one process would take, and each rank takes a share of the steps",
    "count with len(loader), which is the rank's share",
    severity=WARNING,
)
def steps_of_one_process(module: Module) -> Iterator[ast.AST]:
    shared = [keyword(call, "dataset", 0) for call in module.called("DistributedSampler")]
    names = "|".join(re.escape(source(data)) for data in shared if data)
    if not names or module.program.says(r"/ *\(?[\w.]*(world|n_?gpus|num_(replicas|gpus))"):
        return
    for call, loop, length in _advanced(module):
        if any(backwards(module, loop)) and mentions(module, length, rf"len\(({names})\)"):
            if not mentions(module, length, r"world|gpus|replicas|processes"):
                yield call


@rule(
    "G8",
    "nothing steps this schedule: the learning rate stays what the schedule begins with",
    "call scheduler.step() after optimizer.step()",
)
def never_stepped(module: Module) -> Iterator[ast.AST]:
    trains = module.program.calls("backward")
    for node, target in module.assignments(ast.expr) if trains else ():
        made = node.value
        if not isinstance(made, ast.Call) or ".lr_scheduler." not in module.name(made.func):
            continue
        if isinstance(target, ast.Name):
            reads: list[ast.AST] = [*module.reads(target.id, module.scope(node))]
        else:
            named = module.program.references(last_part(source(target)))
            reads = [n for m, n in named if n is not target and m is module]
            reads = [] if len(reads) + 1 < len(named) else reads  # another module may step it
        states = ("state_dict", "load_state_dict", "get_last_lr")
        about = [module.parents[n] for n in reads]
        if about and all(isinstance(a, ast.Attribute) and a.attr in states for a in about):
            yield node


@rule(
    "G8",
    "each rank makes all of these steps: a length multiplied or divided by the ranks is another",
    "count the steps that the loop makes",
)
def length_by_ranks(module: Module) -> Iterator[ast.AST]:
    for _, loop, length in _advanced(module):
        loops = [loop, *(n for n in module.above(loop) if isinstance(n, ast.For | ast.While))]
        bounds = [source(n.test if isinstance(n, ast.While) else n.iter) for n in loops]
        for operator in (ast.Mult, ast.FloorDiv, ast.Div):
            steps, ranks = operands(length, operator) or (None, None)
            if ranks is not None and matches(steps, r"world|n_?(gpus|ranks)"):
                steps, ranks = ranks, steps
            if steps is None or not matches(ranks, r"world|n_?(gpus|ranks)"):
                continue
            if any(re.search(rf"(?<!\w){re.escape(source(steps))}(?!\w)", b) for b in bounds):
                yield length
