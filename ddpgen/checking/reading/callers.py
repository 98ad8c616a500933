"""Who calls a function: the ways to a place in the source, and those that no training takes."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import Function, constant, keyword, names_in
from ddpgen.checking.reading.given import parameter
from ddpgen.checking.reading.grouping import runs_ddp
from ddpgen.checking.reading.programs import Module, once

DEPTH = 4


def uses(module: Module, function: Function) -> Iterator[tuple[Module, ast.expr]]:
    """Where a function is called or handed over; a constructor, under the name of its class."""
    owner, name = module.parents[function], function.name
    method = isinstance(owner, ast.ClassDef) and name != "__init__"
    if isinstance(owner, ast.ClassDef) and not method:
        name = owner.name
    for other, node in module.program.references(name):
        parent = other.parents[node]
        called = isinstance(parent, ast.Call) and parent.func is node
        known = isinstance(node.ctx, ast.Load) and not parameter(other, node)
        known = known and not _annotates(other, node)
        if other.function(node) is function or not known or (method and not called):
            continue
        if module.program.means(other, node, module, function):
            yield other, node
    if method:
        yield from _by_text(module, name)


def _by_text(module: Module, name: str) -> Iterator[tuple[Module, ast.expr]]:
    """Where a method is called by its name as a text: `self.call("on_step_end")`."""
    for other, text in module.program.texts.get(name, []):
        call = other.parents[text]
        if isinstance(call, ast.Call) and text in module.program.looked_up(other, call):
            yield other, text


def is_called(module: Module, use: ast.expr) -> bool:
    """Whether a use of a function is a call, rather than a value that somebody else may call."""
    parent = module.parents[use]
    return isinstance(use, ast.Constant) or (isinstance(parent, ast.Call) and parent.func is use)


def _annotates(module: Module, node: ast.AST) -> bool:
    """Whether a name only says of which type something is."""
    for child, above in module.way(node):
        if isinstance(above, ast.arg):
            return True
        if isinstance(above, ast.stmt):
            return child in (getattr(above, "annotation", None), getattr(above, "returns", None))
    return False


def repeated(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether a loop comes to a node again and again, maybe through functions."""
    if module.loop(node):
        return True
    function = module.function(node)
    if depth == 0 or function is None:
        return False
    return any(repeated(other, use, depth - 1) for other, use in uses(module, function))


def tried_out(module: Module, node: ast.AST, depth: int = DEPTH) -> bool:
    """Whether no training comes to a node.

    Such are tests that stand in a library, what it does if it is run itself, and ranks that are
    only pretended.
    """
    if module.tries_out(node):
        return depth == DEPTH or not _trains(module)
    function = module.function(node)
    if function is None or depth == 0:
        return False
    groups = module.called("init_process_group")
    if any(_pretends(call) and module.function(call) is function for call in groups):
        return True
    found = list(uses(module, function))
    if not found:
        return function.name.startswith("test_")
    return all(tried_out(other, use, depth - 1) for other, use in found)


@once
def _trains(module: Module) -> bool:
    """Whether a library is a program, too."""
    return runs_ddp(module, module.needs)


def _pretends(call: ast.Call) -> bool:
    return constant(keyword(call, "backend", 0)) == "fake"


def on_ranks(module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether ranks come to a place, rather than a process that starts them."""
    if not module.program.starts_ranks:
        return True
    function = module.function(node)
    if function is None or depth == 0:
        return False
    if function.name in _started(module):
        return True
    return any(on_ranks(other, use, depth - 1) for other, use in uses(module, function))


def _started(module: Module) -> set[str]:
    """The names of functions that run in processes of their own."""
    known = module.program.names
    calls = [c for n in ("spawn", "start_processes", "Process") for _, c in known.get(n, [])]
    return {n for c in calls for n in names_in(*c.args, *(k.value for k in c.keywords))}
