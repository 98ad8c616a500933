"""O14: what a loop keeps of each step, so that memory grows until there is none."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.batches import is_loss
from ddpgen.checking.reading.expressions import matches, names_in, operands, receiver, source
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, is_ddp, results
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.waits import step_function

# Ways to keep the number, or a copy that has no graph.
LETS_GO = r"detach|\.item\(|\.data\b|float\(|tolist|\.numpy\("


@rule(
    "O14",
    "each step's loss is kept with its graph, that is with all activations: memory grows",
    "keep loss.detach(), and read the values at log points",
)
def losses_with_graphs(module: Module) -> Iterator[ast.AST]:
    for node, value in _kept(module):
        around = module.loop(node) or step_function(module, node)
        if around and isinstance(value, ast.Name) and _has_graph(module, value):
            if value.id in _backward(module, around):
                yield node
        elif isinstance(value, ast.Call) and any(
            _gives_graph(m, f) for m, f in results(module, value)
        ):
            yield node


def _kept(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What is put into lists, and what is added to sums: the place, and what is kept."""
    for call in module.methods("append"):
        if len(call.args) == 1:
            yield call, call.args[0]
    for node in module.nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            # A sum that goes backward itself is a loss of several parts.
            if source(node.target) not in _backward(module, module.scope(node)):
                yield node, (operands(node.value, ast.Mult) or [node.value])[0]


def _backward(module: Module, around: ast.AST) -> set[str]:
    """What goes backward below a node, and the names in that."""
    values = [receiver(call) for call in module.methods("backward", below=around)]
    return {*map(source, values), *names_in(*values)}


def _gives_graph(module: Module, value: ast.expr) -> bool:
    """Whether a function returns the loss that it goes backward from, as it is."""
    trained = _backward(module, module.scope(value))
    return isinstance(value, ast.Name) and value.id in trained and _has_graph(module, value)


def _has_graph(module: Module, value: ast.Name, depth: int = 2) -> bool:
    """Whether a name was set last by a loss, by the wrapped model, or by a part of such a value."""
    found = binding(module, value)
    if found is None or matches(found.value, LETS_GO):
        return False
    calls = module.calls_below(found.value)
    if any(is_loss(module, call) or is_ddp(module, call.func) for call in calls):
        return True
    sides = found.value if isinstance(found.value, ast.BinOp) and depth else None
    names = [n for n in (sides.left, sides.right) if isinstance(n, ast.Name)] if sides else []
    return any(_has_graph(module, name, depth - 1) for name in names)
