"""What ranks tell each other: whether a condition is about something that all of them know."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import matches
from ddpgen.checking.reading.programs import Module

AGREES = r"reduce(?!_?lr)|gather|broadcast(?!_buffers)|over_ranks|across|sync_(?!batch)"
# By which all ranks get what a rank has drawn.
GIVES = r"broadcast(?!_buffers)|scatter|all_gather_object"
# Rank 0's state sent to all.
SENT = (
    r"_sync_module_states|broadcast\w*\(\W*(\w+\.)*(p|t|v|k|x|value|param\w*|weights?|tensors?|buf\w*|"
    r"\w*state\w*|obj\w*|ckpt|checkpoint|payload|loaded|data|model\w*|optim\w*|saved)\b"
)
_DEPTH = 3


def agreed(module: Module, test: ast.expr) -> bool:
    """Whether the ranks may have told each other what a condition is about.

    A reduction of something else, such as a number for the log, tells nothing about the condition.
    """
    scope = module.scope(test)
    about, values = _names(module, test), [test]
    assignments = [n for n in module.below(scope) if isinstance(n, ast.Assign | ast.AugAssign)]
    for _ in range(_DEPTH):
        for statement in assignments:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if statement.value not in values and _names(module, *targets) & about:
                values.append(statement.value)
        about |= _names(module, *values)
    if any(shares(module, value) for value in values):
        return True
    return any(
        matches(call.func, AGREES) and _names(module, call) & about
        for call in module.calls_below(scope)
        if module.scope(call) is scope
    )


def shares(module: Module, node: ast.AST) -> bool:
    """Whether functions of the program that are called in a node reduce something."""
    calls = module.calls_below(node)
    functions = (function for call in calls for _, function in module.callees(call))
    return matches(node, AGREES) or any(matches(function, AGREES) for function in functions)


def _names(module: Module, *nodes: ast.AST) -> set[str]:
    """The variables and attributes in nodes, without modules and what is called."""
    found = set()
    for node in (inner for each in nodes for inner in _walk(each)):
        parent = module.parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        if isinstance(node, ast.Attribute) and not called:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and node.id not in ("self", "cls", *module.imports):
            found.add(node.id)
    return found


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, without what something is divided by: a count says little."""
    yield node
    left = [node.left] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None
    for child in ast.iter_child_nodes(node) if left is None else left:
        yield from _walk(child)
