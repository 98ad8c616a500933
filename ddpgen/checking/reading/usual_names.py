"""Names by what they stand for: a program that calls its optimizer `nudge` reads as any other.

Rules know optimizers, losses or ranks by how people call them. What somebody calls otherwise gets
such a name before the rules read the program, wherever the program shows what the name stands for.
A program with usual names stays as it is.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ddpgen.checking.reading.expressions import keyword, last_part, method_name, receiver, source
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.roles_of_calls import USUAL, of_call

Functions = dict[str, list[tuple[Module, ast.FunctionDef | ast.ClassDef]]]
ROUNDS = 4
OTHER = "other"


def given(modules: list[Module]) -> list[Module]:
    """The modules, with usual names for what unusual names of their programs stand for."""
    names: dict[frozenset[Module], dict[str, str]] = {}
    found = []
    for module in modules:
        together = frozenset(module.program.modules)
        if together not in names:
            names[together] = (
                _new_names(module.program.modules) if module.program.distributed else {}
            )
        plain = type(module) is Module and names[together]
        text = "\n".join(module.lines)
        found.append(Module(module.path, text, names[together]) if plain else module)
    return found


def _new_names(modules: list[Module]) -> dict[str, str]:
    known = {n: r for n, r in _roles(modules).items() if not re.search(USUAL[r], n, re.IGNORECASE)}
    used = {word for m in modules for word in _words(m)}
    alike: dict[str, list[str]] = defaultdict(list)
    for name, role in known.items():
        alike[role].append(name)
    plain = {role for role, names in alike.items() if len(names) == 1 and role not in used}
    return {name: role if role in plain else f"{name}_{role}" for name, role in known.items()}


def _words(module: Module) -> Iterator[str]:
    """The names of variables, parameters, functions and attributes of objects of the program."""
    for node in module.nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _roles(modules: list[Module]) -> dict[str, str]:
    """Name -> what it stands for, wherever the program sets it."""
    functions = _functions(modules)
    values = _values(modules, functions)
    by_use = {name: role for m in modules for name, role in _used_as(m)}
    roles: dict[str, str] = {}
    for _ in range(ROUNDS):
        found = dict(by_use)
        for name, given in values.items():
            made = {of_call(*v) for v in given} - {""}
            kinds = {k for value in given for k in _kinds(name, value, functions, roles)} - {""}
            # Where it is made there is no doubt; what it is handed on as has to be all one thing.
            if len(made) == 1 and kinds <= {*made, OTHER}:
                found[name] = made.pop()
            elif len(kinds) == 1 and OTHER not in kinds:
                found[name] = kinds.pop()
        if found == roles:
            break
        roles = found
    outside = {name for m in modules for name in (*m.imports, *_stated(m))}
    return {name: role for name, role in roles.items() if name not in outside}


def _stated(module: Module) -> Iterator[str]:
    """Attributes of other objects that are set, such as settings: libraries may read them."""
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [] if source(node.value) == "self" else [node.attr]


class Value(NamedTuple):
    """What a name is set to: an expression, or one of several that come out of the expression."""

    module: Module
    node: ast.expr | None
    place: int | None = None


def _values(modules: list[Module], functions: Functions) -> dict[str, list[Value]]:
    """Name -> all that it is set to; no expression where that is a part of something."""
    found: dict[str, list[Value]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            for target, value, place in _set(node):
                found[last_part(source(target))].append(Value(module, value, place))
            if isinstance(node, ast.Call):
                called = last_part(module.name(node.func)) or method_name(node)
                if called == "cls" and (owner := module.owner(node)):
                    called = owner.name
                for _, function in functions.get(called, []):
                    for name, value, place in _handed_over(node, function):
                        found[name].append(Value(module, value, place))
    return dict(found)


def _functions(modules: list[Module]) -> Functions:
    """Functions by what they are called by: a constructor by its class, and so are dataclasses."""
    found: Functions = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            owner = module.parents.get(node)
            if isinstance(node, ast.FunctionDef):
                made = node.name == "__init__" and isinstance(owner, ast.ClassDef)
                name = owner.name if made and isinstance(owner, ast.ClassDef) else node.name
                found[name].append((module, node))
            elif isinstance(node, ast.ClassDef) and any(map(_is_field, node.body)):
                found[node.name].append((module, node))
    return found


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def _handed_over(
    call: ast.Call, function: ast.FunctionDef | ast.ClassDef
) -> Iterator[tuple[str, ast.expr, int | None]]:
    """The parameters of a function, or fields of a class, that a call gives values for."""
    if isinstance(function, ast.ClassDef):
        names = [source(f.target) for f in function.body if isinstance(f, ast.AnnAssign)]
    else:
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        names = names[names[:1] in (["self"], ["cls"]) :]
    if len(call.args) == 1 and isinstance(whole := call.args[0], ast.Starred):
        yield from ((name, whole.value, place) for place, name in enumerate(names))
    else:
        yield from ((name, value, None) for name, value in zip(names, call.args, strict=False))
    yield from ((each.arg, each.value, None) for each in call.keywords if each.arg)


_Set = tuple[ast.expr, ast.expr | None, int | None]


def _set(node: ast.AST) -> Iterator[_Set]:
    """The targets of a statement, what each gets, and its place among several."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, ast.AnnAssign) and node.value:
        yield node.target, node.value, None
    elif isinstance(node, ast.AugAssign):
        yield node.target, None, None
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value, None
    elif isinstance(node, ast.For | ast.comprehension):
        yield from _unpacked(node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars:
        yield node.optional_vars, None, None


def _unpacked(target: ast.expr, value: ast.expr | None, place: int | None = None) -> Iterator[_Set]:
    if not isinstance(target, ast.Tuple | ast.List):
        if isinstance(target, ast.Name | ast.Attribute):
            yield target, value, place
        return
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    for number, each in enumerate(target.elts):
        if len(parts) == len(target.elts):
            yield from _unpacked(each, parts[number])
        else:
            yield from _unpacked(each, value, number)


def _kinds(name: str, value: Value, functions: Functions, roles: dict[str, str]) -> Iterator[str]:
    """The roles of a value; "" for what says nothing: a literal, or the name itself."""
    module, node, place = value
    if isinstance(node, ast.IfExp):
        for part in (node.body, node.orelse):
            yield from _kinds(name, Value(module, part, place), functions, roles)
    elif isinstance(node, ast.Constant):
        yield ""
    elif isinstance(node, ast.Name | ast.Attribute) and place is None:
        known = last_part(source(node))
        yield "" if known == name else roles.get(known, OTHER)
    elif isinstance(node, ast.Call) and (role := _returned(value, functions, roles)):
        yield role
    else:
        yield of_call(*value) or OTHER


def _returned(value: Value, functions: Functions, roles: dict[str, str]) -> str:
    """The role of what a function of the program gives back, where all its results have one."""
    call = value.node
    if not isinstance(call, ast.Call):
        return ""
    called = last_part(value.module.name(call.func)) or method_name(call)
    found = set()
    for module, function in functions.get(called, []):
        inner = module.below(function)
        for result in (n.value for n in inner if isinstance(n, ast.Return)):
            parts = result.elts if isinstance(result, ast.Tuple) else []
            part = dict(enumerate(parts)).get(value.place) if value.place is not None else result
            found |= {*_kinds("", Value(module, part), {}, roles)}
    return found.pop() if len(found) == 1 and OTHER not in found else ""


def _used_as(module: Module) -> Iterator[tuple[str, str]]:
    """Names whose use shows what they stand for."""
    for call, name in module.calls:
        given: list[tuple[ast.expr | None, str]] = []
        if method_name(call) == "backward" and not call.keywords:
            given.append((_going_backward(call), "loss"))
        elif name.endswith("DistributedDataParallel"):
            given.append((keyword(call, "module", 0), "model"))
        elif name.endswith("init_process_group"):
            given.append((keyword(call, "rank", 4), "rank"))
            given.append((keyword(call, "world_size", 3), "world_size"))
        for value, role in given:
            if isinstance(value, ast.Name | ast.Attribute):
                yield last_part(source(value)), role


def _going_backward(call: ast.Call) -> ast.expr:
    """What goes backward, without a scaler around it and without what divides it."""
    value = receiver(call)
    if isinstance(value, ast.Call) and method_name(value) == "scale" and value.args:
        value = value.args[0]
    while isinstance(value, ast.BinOp):
        value = value.left
    return value
