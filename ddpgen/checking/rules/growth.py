"""O14: what a loop keeps of each step, so that memory grows until there is none."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.batches import computes_loss
from ddpgen.checking.reading.expressions import (
    Function,
    matches,
    names_in,
    operands,
    positional,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, is_ddp, results
from ddpgen.checking.reading.windows import gone_backward
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.waits import step_function

# Ways to keep the number, or a copy that has no graph.
LETS_GO = r"detach|\.item\(|\.data\b|(?<!\.)float\(|tolist|\.numpy\("


@rule(
    "O14",
    "each step's loss is kept with its graph, that is with all activations: memory grows",
    "keep loss.detach(), and read the values at log points",
)
def losses_with_graphs(module: Module) -> Iterator[ast.AST]:
    yield from _kept_by_methods(module)
    for node, value in _kept(module):
        around = module.loop(node) or step_function(module, node)
        names = [name for name in _put_together(value) if around and isinstance(name, ast.Name)]
        trained = _backward(module, around) if around and names else set[str]()
        if any(name.id in trained and _has_graph(module, name) for name in names):
            yield node
        returned = results(module, value) if isinstance(value, ast.Call) and not names else ()
        if any(_gives_graph(m, f) for m, f in returned):
            yield node


def _kept_by_methods(module: Module) -> Iterator[ast.AST]:
    """Calls of methods that add what they are given to something of their object's."""
    for loop in (n for n in module.nodes if isinstance(n, ast.For | ast.While)):
        losses = _backward(module, loop)
        for call in module.calls_below(loop) if losses else ():
            for place, given in enumerate(call.args):
                graph = isinstance(given, ast.Name) and given.id in losses
                if graph and isinstance(given, ast.Name) and _has_graph(module, given):
                    if any(_adds_up(m, f, place) for m, f in module.callees(call)):
                        yield call


def _adds_up(module: Module, function: Function, place: int) -> bool:
    """Whether a method keeps its argument of that place from call to call, with the graph."""
    name = dict(enumerate(positional(function))).get(place)
    if name is None or matches(function, LETS_GO) or not matches(function, r"\bself\."):
        return False
    for node in module.below(function):
        if isinstance(node, ast.AugAssign | ast.Assign) and name in names_in(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own = [source(t) for t in targets if source(t).startswith("self.")]
            if own and (isinstance(node, ast.AugAssign) or own[0] in source(node.value)):
                return True
        if isinstance(node, ast.Call) and source(node.func).endswith(".append"):
            if source(node.func).startswith("self.") and name in map(source, node.args):
                return True
    return False


def _kept(module: Module) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What is put into lists, and what is added to sums: the place, and what is kept."""
    for call in module.methods("append"):
        if len(call.args) == 1:
            yield call, call.args[0]
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            # losses = losses + loss
            target, sides = source(node.targets[0]), operands(node.value, ast.Add)
            if sides and source(sides[0]) == target:
                if target not in _backward(module, module.scope(node)):
                    yield node, sides[1]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            # A sum that goes backward itself is a loss of several parts.
            if source(node.target) not in _backward(module, module.scope(node)):
                yield node, (operands(node.value, ast.Mult) or [node.value])[0]


def _put_together(value: ast.expr) -> list[ast.Name]:
    """The names whose values are kept: of a name alone, or of `torch.stack((loss, count))`."""
    if isinstance(value, ast.Call) and matches(value.func, r"(stack|cat|hstack)$") and value.args:
        parts = value.args[0]
        inner = parts.elts if isinstance(parts, ast.Tuple | ast.List) else []
        return [part for part in inner if isinstance(part, ast.Name)]
    return [value] if isinstance(value, ast.Name) else []


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
    if any(computes_loss(module, call) or is_ddp(module, call.func) for call in calls):
        return True
    if calls and value.id in gone_backward(module, module.scope(value)):
        return True
    sides = found.value if isinstance(found.value, ast.BinOp) and depth else None
    names = [n for n in (sides.left, sides.right) if isinstance(n, ast.Name)] if sides else []
    return any(_has_graph(module, name, depth - 1) for name in names)
