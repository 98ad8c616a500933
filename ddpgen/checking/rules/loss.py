"""G2, G5, G6: what a loss is divided by before it goes backward."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.expressions import constant, keyword, matches, method_name, receiver, source
from ddpgen.checking.programs import Module
from ddpgen.checking.registry import rule
from ddpgen.checking.values import binding, follows, mentions, results

_ALL_RANKS = r"reduce|over_ranks|gather|world|global"
_COUNTED = r"\.sum\(\)|count_nonzero\("
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


def _is_sum(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and (found := binding(module, node)):
        node = found.value
    return isinstance(node, ast.Call) and _sums(module, node)


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
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            for total, factor in ((value.left, value.right), (value.right, value.left)):
                if _is_sum(module, total) and follows(module, factor, _is_world_size):
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
    for call, value in _losses(module):
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            counts = {n.id for n in ast.walk(value.right) if isinstance(n, ast.Name)}
            reduced = {
                source(reduction.args[0])
                for reduction in module.called("torch.distributed.all_reduce")
                if reduction.args
                and module.scope(reduction) is module.scope(call)
                and not matches(reduction, r"\bAVG\b")
            }
            known = _is_sum(module, value.left) and counts & reduced
            if known and not mentions(module, value, r"world|n_?ranks|num_replicas|n?gpus"):
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
        if isinstance(value, ast.BinOp):
            sums = [n for n in (value.left, value.right) if _is_sum(module, n)]
            others = [n for n in (value.left, value.right) if n not in sums]
            if sums and others and follows(module, others[0], _full_batch):
                yield call


def _full_batch(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """A batch size out of a config, or something divided by it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.right
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
        parts = [value, *_bound(module, value)]
        for part in parts:
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div):
                counted = matches(part.right, _COUNTED) and matches(part.right, _MASK)
                if counted and not mentions(module, part, _ALL_RANKS):
                    yield call
                    break


def _bound(module: Module, value: ast.expr) -> Iterator[ast.expr]:
    """What the names in an expression stand for."""
    for node in module.below(value):
        if isinstance(node, ast.Name) and (found := binding(module, node)):
            yield found.value
