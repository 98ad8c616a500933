"""G1: losses over what all ranks have computed, such as those of pairs against all pairs."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.batches import computes_loss
from ddpgen.checking.reading.expressions import (
    Function,
    last_part,
    matches,
    names_in,
    source,
    stored_in,
)
from ddpgen.checking.reading.guards import NO_GRADIENTS, contexts, without_gradients
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import binding
from ddpgen.checking.registry import WARNING, rule

_GATHERS = ("all_gather", "all_gather_into_tensor", "all_gather_object")
_WITH_GRADIENT = r"distributed\.nn"


@rule(
    "G1",
    "what is gathered is cut off from its gradient here: each rank learns from its own rows alone",
    "gather outside of no_grad(), and without detach(), where a loss is made of the rows",
    severity=WARNING,
)
def gathered_and_cut_off(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        for call in _gathering(module, function) if module.program.says(_WITH_GRADIENT) else ():
            statement = module.statement(call)
            off = any(matches(context, NO_GRADIENTS) for context in contexts(module, call))
            off = off or any(matches(given, r"\.detach\(\)$") for given in call.args)
            if off and isinstance(statement, ast.Assign):
                names = _grown(module, function, stored_in(statement))
                losses = [c for c in module.calls_below(function) if _is_loss(module, c)]
                learns = [c for c in losses if names_in(*c.args) & names]
                if any(not without_gradients(module, c) for c in learns):
                    if not _put_back(module, function, names):
                        yield call


@rule(
    "G1",
    "each rank's rows are sought at the place of rank 0's: the other ranks learn wrong pairs",
    "add dist.get_rank() times the number of rows to the labels",
    severity=WARNING,
)
def labels_of_rank_0(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        names = _from_all(module, function)
        for call in module.called("torch.arange") if names else ():
            statement = module.statement(call)
            if module.function(call) is not function or not isinstance(statement, ast.Assign):
                continue
            labels, about = stored_in(statement), names_in(*call.args)
            losses = [c for c in module.calls_below(function) if names_in(*c.args[1:2]) & labels]
            own = len(call.args) == 1 and not about & names and not matches(statement, "rank")
            if own and any(_one_against_all(module, c, names) for c in losses):
                yield call


def _one_against_all(module: Module, call: ast.Call, names: set[str]) -> bool:
    """Whether a loss gets products of this rank's rows with the rows of all."""
    value = call.args[0]
    found = binding(module, value) if isinstance(value, ast.Name) else None
    for node in ast.walk(found.value if found else value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            left, right = names_in(node.left) & names, names_in(node.right) & names
            if bool(left) != bool(right):
                return _is_loss(module, call)
    return False


def _is_loss(module: Module, call: ast.Call) -> bool:
    return computes_loss(module, call) and len(call.args) > 1


def _from_all(module: Module, function: Function) -> set[str]:
    """The names of a function that get what all ranks have."""
    found: set[str] = set()
    for call in _gathering(module, function):
        statement = module.statement(call)
        found |= _filled(module, [call])
        found |= stored_in(statement) if isinstance(statement, ast.Assign) else set()
    return _grown(module, function, found) if found else found


def _gathering(module: Module, function: Function) -> Iterator[ast.Call]:
    """The calls of a function that gather rows, themselves or in functions that give them back."""
    for call in module.calls_below(function):
        if module.function(call) is function:
            if _gathers(module, call) or any(_gives(m, f) for m, f in module.callees(call)):
                yield call


def _gathers(module: Module, call: ast.Call) -> bool:
    name = module.name(call.func)
    return last_part(name) in _GATHERS and "distributed" in name


@once
def _gives(module: Module, function: Function) -> bool:
    """Whether a function gives back what it gathers."""
    calls = [call for call in module.calls_below(function) if _gathers(module, call)]
    names = _grown(module, function, _filled(module, calls)) if calls else set[str]()
    inside = module.below(function) if calls else []
    returned = [n.value for n in inside if isinstance(n, ast.Return) and n.value is not None]
    direct = any(call in module.calls_below(value) for value in returned for call in calls)
    return direct or any(names_in(value) & names for value in returned)


def _filled(module: Module, calls: list[ast.Call]) -> set[str]:
    """The lists and tensors that gathering fills, rather than giving something back."""
    filling = [call for call in calls if not re.search(_WITH_GRADIENT, module.name(call.func))]
    given = [call.args[0] for call in filling if len(call.args) > 1]
    return {name for value in given for name in names_in(value)}


def _grown(module: Module, function: Function, names: set[str]) -> set[str]:
    """Names, and those that are set to something made of them."""
    found = set(names)
    for node in module.below(function):
        if isinstance(node, ast.Assign) and names_in(node.value) & found:
            found |= stored_in(node)
    return found


def _put_back(module: Module, function: Function, names: set[str]) -> bool:
    """Whether a rank's own rows, which have a gradient, take their place among the others."""
    targets = (target for _, target in module.assignments(ast.Subscript))
    inside = {*module.below(function)}
    return any(target in inside and source(target.value) in names for target in targets)
