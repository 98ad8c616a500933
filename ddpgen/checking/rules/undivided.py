"""G2: gradients of several micro-batches that nothing divides by their number."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.batches import computes_loss
from ddpgen.checking.reading.expressions import matches, names_in, receiver, stored_in
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import is_ddp, results
from ddpgen.checking.reading.windows import step_functions, windows
from ddpgen.checking.registry import WARNING, rule

_SCALES = r"\b(div|mul|true_divide|sum)_?\(|='(sum|none)'"
# The number of micro-batches may be in the gradients, or in the learning rate.
_ELSEWHERE = r"\.grad(\.data)?(\.(div|mul)_| [*/]=)|_foreach_(div|mul)_|\blr\b.*accum|accum.*\blr\b"
_KEEPS = r"\.(to|float|mean|item|cuda)$|\bscale$"


@rule(
    "G2",
    "the gradients of several micro-batches add up, and nothing divides them by their number",
    "divide the loss by the number of micro-batches per optimizer step",
    severity=WARNING,
)
def nothing_divides(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_ELSEWHERE):
        return
    for window in windows(module):
        for around in (window.loop, *step_functions(module, window)):
            for call in module.methods("backward", below=around):
                if not call.args and _is_mean(module, receiver(call), around):
                    yield call


def _is_mean(module: Module, value: ast.expr, loop: ast.AST) -> bool:
    """Whether a value is a loss as it was computed: everything on its way is to be seen."""
    way = [value]
    for node in way:  # grows
        if isinstance(node, ast.Name):
            way += [found for found in _set(module, node.id, loop) if found not in way]
        elif isinstance(node, ast.Attribute):
            way.append(node.value)
        elif isinstance(node, ast.Call) and matches(node.func, _KEEPS):
            way.append(node.args[0] if matches(node.func, r"\bscale$") else receiver(node))
    return any(_is_computed(module, node) for node in way) and not any(map(_scales, way))


def _scales(node: ast.AST) -> bool:
    """Whether something in a node divides, multiplies or sums up."""
    operations = (n.op for n in ast.walk(node) if isinstance(n, ast.BinOp))
    return matches(node, _SCALES) or any(isinstance(o, ast.Mult | ast.Div) for o in operations)


def _set(module: Module, name: str, loop: ast.AST) -> Iterator[ast.expr]:
    """The values that statements of a loop give a name; of `loss /= 4`, the whole statement."""
    for node in module.below(loop):
        if isinstance(node, ast.Assign) and name in stored_in(*node.targets):
            yield node.value
        elif isinstance(node, ast.AugAssign) and name in names_in(node.target):
            yield ast.BinOp(node.target, node.op, node.value)


def _is_computed(module: Module, node: ast.expr) -> bool:
    """Whether a node is a loss of torch's, or of a model, which average over the micro-batch."""
    if isinstance(node, ast.Attribute):
        return node.attr == "loss" and not isinstance(node.ctx, ast.Store)
    if not isinstance(node, ast.Call):
        return False
    if not computes_loss(module, node):  # _, loss = model(inputs, targets)
        set_by = module.statement(node)
        several = isinstance(set_by, ast.Assign) and isinstance(set_by.targets[0], ast.Tuple)
        return several and matches(set_by, r"^[^=]*\bloss\b") and is_ddp(module, node.func)
    returned = list(results(module, node))
    return all(_is_mean(other, value, other.scope(value)) for other, value in returned)
