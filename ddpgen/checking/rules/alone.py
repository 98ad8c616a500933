"""G10: turns of the training that one rank skips."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import agreed, shares
from ddpgen.checking.reading.expressions import (
    Function,
    matches,
    names_in,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import LIBRARIES, commonly_seeded, seeded_by_rank
from ddpgen.checking.reading.values import binding, bindings, is_ddp, mentions
from ddpgen.checking.reading.windows import backwards, goes_backward, step_follows, updates
from ddpgen.checking.registry import rule

WRAPPED = r"DistributedDataParallel|FullyShardedDataParallel|fully_shard"
_LOSS = re.compile(
    r"(float\()?(\w+_)?loss(es)?(_\w+)?(\[.*\])?(\.(item|detach|mean)\(\)|\.data)*\)?"
)
_MEMORY = r"out of memory|OutOfMemory"
_BATCHES = r"load(er)?s?\b|batches|data(set)?\b"
_VALUES = r"(^|\.)(all|any|amax|amin|count_nonzero|max|mean|min|nonzero|numel|sum)$"
_LEAVES = (ast.Break, ast.Continue, ast.Return)


@rule(
    "G10",
    "this rank skips by itself, and the others wait for it in the next reduction",
    "reduce the condition over all ranks, and skip together",
)
def skipped_alone(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if not isinstance(node, ast.If | ast.ExceptHandler):
            continue
        loop = module.loop(node) or module.function(node)
        if loop is None:
            continue
        if isinstance(node, ast.If):
            if list(module.methods("backward", below=loop)) and _skips_numbers(module, node, loop):
                yield node
        elif matches(node.type, r"RuntimeError|OutOfMemory|^Exception$"):
            # Where nothing is updated, something is measured.
            updated = any(updates(module, call, 2) for call in module.calls_below(loop))
            updated |= isinstance(loop, ast.For) and step_follows(module, loop)
            if updated and _passes_over(node) and _breaks_off(module, node, loop):
                yield node


def _skips_numbers(module: Module, node: ast.If, loop: ast.For | ast.While | Function) -> bool:
    """Whether a turn is skipped where a number is none, and no rank tells the others about it."""
    kinds = ast.Return if isinstance(loop, Function) else _LEAVES
    leaves = any(isinstance(n, kinds) for s in node.body for n in ast.walk(s))
    return leaves and matches(node.test, r"isnan|isinf|isfinite") and not agreed(module, node.test)


def _passes_over(handler: ast.ExceptHandler) -> bool:
    """Whether a lack of memory ends nothing: `if "out of memory" in str(error)`, else it raises."""
    others: set[ast.AST] = set()
    for node in ast.walk(handler):
        if isinstance(node, ast.If) and matches(node.test, _MEMORY):
            outside = node.body if matches(node.test, r"not in|^not ") else node.orelse
            others |= {below for statement in outside for below in ast.walk(statement)}
    return not any(isinstance(n, ast.Raise) and n not in others for n in ast.walk(handler))


def _breaks_off(module: Module, handler: ast.ExceptHandler, loop: ast.AST) -> bool:
    """Whether the others are in a backward that the rank has left, or will not come to."""
    tried = module.parents[handler]
    if not isinstance(tried, ast.Try):
        return False
    if list(module.methods("backward", below=tried)):
        return True
    if module.loop(handler) is None:  # the whole training is tried, which ends by that
        return False
    if any(call for statement in tried.body for call in backwards(module, statement)):
        return True
    forward = any(is_ddp(module, c.func) for s in tried.body for c in module.calls_below(s))
    skips = any(isinstance(n, ast.Continue) for n in ast.walk(handler))
    return forward and skips and any(backwards(module, loop))


@rule(
    "G10",
    "this rank's own loss decides whether it trains here, and where ranks differ the others wait",
    "reduce the loss over all ranks, and decide by that",
)
def decided_by_own_loss(module: Module) -> Iterator[ast.AST]:
    for node in _deciding(module):
        finite = matches(node.test, r"isnan|isinf|isfinite") and matches(node.test, "loss")
        trains = any(call for statement in node.body for call in backwards(module, statement))
        if (finite and trains) or _compares_loss(module, node):
            yield node


@rule(
    "G10",
    "each rank draws by itself whether it trains here, and where ranks differ the others wait",
    "draw from a generator with the same seed on all ranks",
)
def decided_by_own_draw(module: Module) -> Iterator[ast.AST]:
    for node in _deciding(module):
        for call in module.calls_below(node.test):
            library, _, name = module.name(call.func).rpartition(".")
            draws = re.fullmatch(r"rand(om|int|n|range)?|uniform|choice|binomial", name)
            if draws and library in LIBRARIES:
                kind = LIBRARIES[library]
                alike = commonly_seeded(module, kind) and not seeded_by_rank(module, kind)
                if not call.keywords and not alike:
                    yield node


@rule(
    "G10",
    "this rank's own samples decide whether it trains here, and where ranks differ the others wait",
    "train on all ranks: count nothing where there is nothing, as in loss * 0",
)
def decided_by_own_samples(module: Module) -> Iterator[ast.AST]:
    for node in _deciding(module):
        loop = module.loop(node)
        if isinstance(loop, ast.For):
            names = _from_batches(module, loop)
            parts = [n for n in ast.walk(node.test) if isinstance(n, ast.comprehension)]
            names |= {n for p in parts if names_in(p.iter) & names for n in names_in(p.target)}
            if any(_asks_for_values(module, part, names) for part in ast.walk(node.test)):
                yield node


def _from_batches(module: Module, loop: ast.For) -> set[str]:
    """The names that get the samples of a turn, or parts of them."""
    names = stored_in(loop.target) if mentions(module, loop.iter, _BATCHES, 1) else set[str]()
    for part in (n for n in module.below(loop) if isinstance(n, ast.Assign)):
        drawn = isinstance(part.value, ast.Call) and matches(part.value.func, "^next$")
        if drawn or names_in(part.value) & names:
            names |= stored_in(part)
    return names


def _asks_for_values(module: Module, node: ast.AST, names: set[str]) -> bool:
    """Whether an expression depends on what samples hold: `batch is None`, `labels.sum()`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return source(node.left) in names
    if not isinstance(node, ast.Call):
        return False
    of_torch = module.name(node.func).startswith("torch.") and node.args
    tensor = node.args[0] if of_torch else receiver(node)
    return bool(names_in(tensor) & names) and matches(node.func, _VALUES)


def _deciding(module: Module) -> Iterator[ast.If]:
    """Conditions that let this rank train or not, where no rank tells the others anything."""
    if not module.program.says(WRAPPED):
        return
    for node in module.nodes:
        if isinstance(node, ast.If):
            around = module.loop(node) or module.function(node)
            if around and _decides(module, node, around) and not agreed(module, node.test):
                yield node


def _decides(module: Module, node: ast.If, around: ast.For | ast.While | Function) -> bool:
    branches = [
        any(call for statement in branch for call in backwards(module, statement))
        for branch in (node.body, node.orelse)
    ]
    if any(branches):
        return branches[0] != branches[1] and not isinstance(node.body[-1], _LEAVES)
    last = node.body[-1]
    if isinstance(around, Function) and not isinstance(last, ast.Return):
        return False
    if isinstance(last, ast.Break | ast.Return) and not isinstance(around, Function):
        return any(backwards(module, around))
    if not isinstance(last, ast.Continue | ast.Return):
        return False
    calls = [c for c in module.calls_below(around) if c.lineno > (node.end_lineno or 0)]
    return any(goes_backward(module, call, 1) or updates(module, call, 1) for call in calls)


def _compares_loss(module: Module, node: ast.If) -> bool:
    """Whether a condition is about a loss that was computed in the same turn."""
    around = module.loop(node) or module.function(node)
    for test in ast.walk(node.test):
        if not isinstance(test, ast.Compare):
            continue
        if not all(isinstance(how, ast.Gt | ast.GtE | ast.Lt | ast.LtE) for how in test.ops):
            continue
        for side in (test.left, *test.comparators):
            found = _loss(module, side)
            if found and around and found.lineno > around.lineno and not shares(module, found):
                return True
            alone = zero_guard(module, node.body[0]) is not None  # another row's mistake
            if around and not alone and _from_forward(module, side, around):
                return True
    return False


def _from_forward(module: Module, node: ast.expr, around: ast.AST, depth: int = 3) -> bool:
    """Whether a number was computed in the same turn by the wrapped model or beside a loss."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    table, scope = bindings(module), module.scope(node)
    inside = {*module.below(around)}
    for name in names if depth else ():
        for found in table.get((scope, name.id), []):
            if found.statement not in inside or isinstance(found.statement, ast.For):
                continue
            if shares(module, found.value):
                return False
            calls = module.calls_below(found.value)
            if any(is_ddp(module, c.func) or _measures(module, c) for c in calls):
                return True
            if _from_forward(module, found.value, around, depth - 1):
                return True
    return False


def _measures(module: Module, call: ast.Call) -> bool:
    """Whether a function of the program runs the wrapped model."""
    callees = module.callees(call)
    inner = ((m, c) for m, function in callees for c in m.calls_below(function))
    return any(is_ddp(m, c.func) for m, c in inner)


def _loss(module: Module, node: ast.expr) -> ast.expr | None:
    """What the loss in an expression was set to."""
    if not _LOSS.fullmatch(ast.unparse(node)):
        return None
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and "loss" in n.id]
    found = binding(module, names[0]) if names else None
    return found.value if found and isinstance(found.statement, ast.Assign) else None
