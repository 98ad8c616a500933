"""Parameters, and what callers give for them."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import Function, keyword, parameters
from ddpgen.checking.reading.programs import Module

MANY = 20  # calls of one function; what is called more often is too general to tell anything


def names_of_parameters(function: Function) -> list[str]:
    """The names that callers can give values for."""
    return [parameter.arg for parameter in parameters(function)]


def arguments(module: Module, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """What callers give for a parameter."""
    function = module.function(node)
    while function and isinstance(node, ast.Name):
        rest = function.args.vararg
        if node.id in names_of_parameters(function) or (rest and rest.arg == node.id):
            yield from _given(module, function, node.id)
            return
        function = module.function(function)


def _given(module: Module, function: Function, name: str) -> Iterator[tuple[Module, ast.expr]]:
    names = names_of_parameters(function)
    method = bool(names) and names[0] in ("self", "cls")
    wanted = function.name
    if wanted == "__init__" and (owner := module.owner(function)):
        wanted = owner.name
    calls = [
        (other, call)
        for other, call in module.program.names.get(wanted, [])
        if module.program.means(other, call.func, module, function)
    ]
    for other, call in calls[:MANY]:
        if name not in names:  # *name takes what is left over
            yield from ((other, value) for value in call.args[len(names) - method :])
            continue
        given = keyword(call, name, names.index(name) - method)
        if given is not None:
            yield other, given


def parameter(module: Module, node: ast.expr) -> ast.arg | None:
    """The parameter that a name stands for, if it is one."""
    function = module.function(node)
    while function and isinstance(node, ast.Name):
        for each in parameters(function):
            if each.arg == node.id:
                return each
        function = module.function(function)
    return None
