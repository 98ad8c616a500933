"""G2, G5, G6: what a loss is divided by before it goes backward."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    method_name,
    names_in,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, follows, mentions, results
from ddpgen.checking.registry import rule

_ALL_RANKS = r"reduce|over_ranks|gather|world|global"
_MASK = r"mask|valid|ignore|pad|\.ne\(| != "


def _losses(module: Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls of backward, and what goes backward, without a scaler around it."""
    for call in module.methods("backward"):
        value = receiver(call)
        if isinstance(value, ast.Call) and matches(value.func, r"scale$") and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name) and (found := binding(module, value)):
            if isinstance(found.statement, ast.AugAssign):
                continue
            value = found.value
        if not _thrown_away(module, call):
            yield call, value


def _thrown_away(module: Module, backward: ast.Call) -> bool:
    """Whether the gradients are cleared behind a backward and no step uses them."""
    scope = module.scope(backward)
    after = [
        c for c in module.methods("zero_grad", "step", below=scope) if c.lineno > backward.lineno
    ]
    return bool(after) and not any(matches(call.func, r"\.step$") for call in after)


def _set_to(module: Module, node: ast.expr) -> ast.expr:
    """What a name was set to last; any other expression as it is."""
    found = binding(module, node) if isinstance(node, ast.Name) else None
    return found.value if found else node


def _is_sum(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a loss that is summed up, rather than averaged."""
    value = _set_to(module, node)
    return isinstance(value, ast.Call) and _sums(module, value)


def _beside_sums(module: Module, sides: list[ast.expr]) -> Iterator[ast.expr]:
    """The sides of an operation whose other side is a summed loss."""
    for this, other in zip(sides, sides[::-1], strict=True):
        if _is_sum(module, other):
            yield this


def _sums(module: Module, call: ast.Call) -> bool:
    if constant(keyword(call, "reduction")) == "sum":
        return True
    for other, value in results(module, call):
        if isinstance(value, ast.Call) and _sums(other, value):
            return True
    if method_name(call) == "sum":
        return matches(receiver(call), r"reduction='none'|loss")
    made = binding(module, call.func)
    return bool(made and matches(made.value, r"Loss\(.*reduction='sum'"))


@rule(
    "G2",
    "a summed loss: DDP averages over ranks, so that the step depends on batch and world size",
    "divide by the number of targets of all ranks, times the world size",
)
def summed_loss(module: Module) -> Iterator[ast.AST]:
    for call, value in _losses(module):
        if _is_sum(module, value):
            yield call


@rule(
    "G2",
    "this sum is multiplied, and nothing divides it: it grows with the batch of all ranks",
    "divide by the number of targets of all ranks, too",
)
def multiplied_sum(module: Module) -> Iterator[ast.AST]:
    for call, value in _losses(module):
        for factor in _beside_sums(module, operands(value, ast.Mult)):
            if follows(module, factor, _is_world_size):
                yield call


def _is_world_size(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if isinstance(node, ast.Call):
        if module.name(node.func) == "float" and node.args:
            return node.args[0]
        return module.name(node.func).endswith("get_world_size")
    if isinstance(node, ast.Attribute):
        return node.attr == "world_size"
    return None if isinstance(node, ast.Name) else False


@rule(
    "G2",
    "divided by the targets of all ranks, and DDP divides by the number of ranks once more",
    "multiply by the world size: DDP averages, and a sum is meant",
)
def divided_twice(module: Module) -> Iterator[ast.AST]:
    sums = [c for c in module.called("torch.distributed.all_reduce") if c.args]
    sums = [c for c in sums if not matches(c, r"\bAVG\b")]
    for call, value in _losses(module):
        scope = module.scope(call)
        reduced = {source(c.args[0]) for c in sums if module.scope(c) is scope}
        total, count = operands(value, ast.Div) or (None, None)
        if total and count and _is_sum(module, total) and names_in(count) & reduced:
            if not mentions(module, value, r"world|n_?ranks|num_replicas|n?gpus"):
                yield call


@rule(
    "G5",
    "the last batch of an epoch is shorter, and its sum is divided as if it were full",
    "divide by the number of targets that there are, or pass drop_last=True",
)
def divided_by_full_batch(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"drop_last=True") or not module.program.calls("DataLoader"):
        return
    for call, value in _losses(module):
        for factor in _beside_sums(module, operands(value, ast.operator)):
            if follows(module, factor, _full_batch):
                yield call


def _full_batch(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """A batch size out of a config, or something divided by it."""
    if divided := operands(node, ast.Div):
        return divided[1]
    if isinstance(node, ast.Attribute):
        root = source(node).partition(".")[0]
        named = re.search(r"batch_size$", node.attr) and re.match(r"c(on)?fi?g|args|opt|hp", root)
        return bool(named) and binding(module, node) is None
    return None if isinstance(node, ast.Name) else False


@rule(
    "G6",
    "divided by the targets of this rank and micro-batch: an average of averages",
    "sum the loss and divide once by the number of targets of all ranks",
)
def divided_by_own_count(module: Module) -> Iterator[ast.AST]:
    for call, value in _losses(module):
        named = [node for node in module.below(value) if isinstance(node, ast.Name)]
        for part in (value, *(_set_to(module, node) for node in named)):
            _, count = operands(part, ast.Div) or (None, None)
            if count and _counts_some(module, count):
                if not mentions(module, part, _ALL_RANKS):
                    yield call
                    break
            if isinstance(count, ast.Name) and _is_own_count(module, count):
                yield call
                break


def _is_own_count(module: Module, count: ast.Name) -> bool:
    """Whether a number of targets was added up on this rank, and no rank tells its own."""
    value: ast.expr = count
    for _ in range(4):  # count = count.to(device)
        found = binding(module, value) if isinstance(value, ast.Name) else None
        moved = isinstance(value, ast.Call) and method_name(value) in ("to", "cuda", "clamp")
        if found is None and not moved:
            break
        value = found.value if found else receiver(value) if isinstance(value, ast.Call) else value
    scope = module.scope(count)
    reduced = (c for c in module.calls_below(scope) if matches(c.func, r"reduce|gather"))
    told = any(count.id in names_in(*call.args) for call in reduced)
    return not told and value is not count and _counts_some(module, value)


def _counts_some(module: Module, count: ast.expr) -> bool:
    """Whether an expression is the number of places that a mask or a comparison chooses."""
    for call in module.calls_below(count):
        if method_name(call) in ("sum", "count_nonzero"):
            counted = (
                call.args[0] if call.args and matches(call.func, r"^torch\.") else receiver(call)
            )
            if matches(counted, _MASK) or follows(module, counted, _is_comparison):
                return True
    return False


def _is_comparison(_: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Compare):
        return True
    return None if isinstance(node, ast.Name | ast.Call) else False
