"""What an expression stands for, followed through assignments, parameters and local functions.

Only as far as the text shows it plainly: an answer "no" may mean "unknown".
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ddpgen.checking.reading.conditions import without_ddp
from ddpgen.checking.reading.expressions import (
    Function,
    last_part,
    method_name,
    receiver,
    source,
)
from ddpgen.checking.reading.given import arguments, names_of_parameters, parameter
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.source import exclusive

DEPTH = 5
DDP = "DistributedDataParallel"
Test = Callable[[Module, ast.expr], bool | ast.expr | None]
_Part = tuple[ast.expr, ast.expr, int | None]  # a target, what comes there, and its place in that


class Binding(NamedTuple):
    """A value that a name gets."""

    line: int
    value: ast.expr
    statement: ast.AST
    place: int | None = None  # among several that come out of the value


@once
def bindings(module: Module) -> dict[tuple[ast.AST, str], list[Binding]]:
    """(function, class or module; text of the target) -> the values that it gets, in order.

    Attributes of `self` belong to their class.
    """
    found: dict[tuple[ast.AST, str], list[Binding]] = defaultdict(list)
    for node in module.nodes:
        for target, value, number in _assignments(node):
            text = source(target)
            place: ast.AST = module.scope(target)
            if text.startswith("self."):
                place = module.owner(target) or place
            found[place, text].append(Binding(target.lineno, value, node, number))
    return dict(found)


def _assignments(node: ast.AST) -> Iterator[_Part]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value:
        yield node.target, node.value, None
    elif isinstance(node, ast.For):
        yield from _unpacked(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars:
        yield node.optional_vars, node.context_expr, None


def _unpacked(target: ast.expr, value: ast.expr, place: int | None = None) -> Iterator[_Part]:
    if not isinstance(target, ast.Tuple | ast.List):
        yield target, value, place
        return
    written = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    for number, each in enumerate(target.elts):
        if written and isinstance(value, ast.Tuple | ast.List):
            yield from _unpacked(each, value.elts[number])
        else:
            yield from _unpacked(each, value, number)


def binding(module: Module, node: ast.expr) -> Binding | None:
    """The value that a name or attribute got last, as far as the order of lines tells."""
    text = source(node)
    table = bindings(module)
    places: list[ast.AST] = [n for n in module.above(node) if isinstance(n, Function)]
    for place in places:
        if earlier := _before(module, table.get((place, text), []), node):
            return earlier[-1]
        if isinstance(place, Function) and text in names_of_parameters(place):
            return None
    owner = module.owner(node)
    if owner and (owner, text) in table:
        same = [b for b in table[owner, text] if module.scope(b.statement) in places]
        earlier = _before(module, same, node)
        # Another method's value is its last one; this method's is the one above.
        others = [b for b in table[owner, text] if b not in same]
        return (earlier or others)[-1] if earlier or others else None
    found = table.get((module.tree, text), [])
    if not places:
        found = _before(module, found, node)
    return found[-1] if found else None


def _before(module: Module, found: list[Binding], node: ast.expr) -> list[Binding]:
    return [b for b in found if b.line < node.lineno and not exclusive(module, b.statement, node)]


def _otherwise(module: Module, node: ast.expr, last: Binding) -> list[Binding]:
    """The values of the other branch: `if ddp: rank = get_rank()`, `else: rank = 0`."""
    own = module.owner(node) if source(node).startswith("self.") else None
    found = bindings(module).get((own or module.scope(last.statement), source(node)), [])
    found = [b for b in found if exclusive(module, b.statement, last.statement)]
    return [b for b in found if not exclusive(module, b.statement, node)]


def results(module: Module, call: ast.Call) -> Iterator[tuple[Module, ast.expr]]:
    """What a local function returns."""
    for other, function in module.callees(call):
        for node in other.below(function):
            if isinstance(node, ast.Return) and node.value and other.function(node) is function:
                yield other, node.value


def stands_for(module: Module, node: ast.AST) -> Iterator[tuple[Module, ast.expr]]:
    """What a name or attribute was set to last, in either branch, or what callers give for it."""
    if isinstance(node, ast.Name | ast.Attribute):
        if found := binding(module, node):
            each = [found, *_otherwise(module, node, found)]
            on_ranks = [b for b in each if not without_ddp(module, b.statement)]
            for got in on_ranks or each:
                yield from _part(module, got)
        else:
            yield from [*arguments(module, node)] or _of_another(module, node)


def _of_another(module: Module, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """What a class sets an attribute of its objects to: `trainer.rank` of the class Trainer."""
    given = parameter(module, node.value) if isinstance(node, ast.Attribute) else None
    if given is None or not isinstance(node, ast.Attribute) or given.arg == "self":
        return
    named = last_part(module.name(given.annotation)) if given.annotation else given.arg
    for other in module.program.modules:
        for (place, text), found in bindings(other).items():
            same = isinstance(place, ast.ClassDef) and place.name.lower() == named.lower()
            if same and text == f"self.{node.attr}":
                yield other, found[-1].value


def _part(module: Module, got: Binding) -> Iterator[tuple[Module, ast.expr]]:
    """A value, or the part of what a function returns: `rank, world = setup()`.

    Of what a comprehension makes, each part is alike: `one, two = (wrap(net) for net in nets)`.
    """
    found = []
    if got.place is not None and isinstance(got.value, ast.GeneratorExp | ast.ListComp):
        found.append((module, got.value.elt))
    if isinstance(got.statement, ast.Assign) and isinstance(got.value, ast.Call):
        for other, value in results(module, got.value) if got.place is not None else ():
            if isinstance(value, ast.Tuple) and len(value.elts) > (got.place or 0):
                found.append((other, value.elts[got.place or 0]))
    yield from found or [(module, got.value)]


@once
def follows(module: Module, node: ast.expr, test: Test, depth: int = DEPTH) -> bool:
    """Whether an expression, or what it stands for, passes a test.

    Args:
        module: where the expression is.
        node: the expression.
        test: True or False is the answer; None asks to look further, an expression to look there.
        depth: how many assignments and calls may lie between.
    """
    answer = test(module, node)
    if isinstance(answer, ast.expr):
        return depth > 0 and follows(module, answer, test, depth - 1)
    if isinstance(node, ast.IfExp) and not answer and depth:
        return any(follows(module, part, test, depth - 1) for part in (node.body, node.orelse))
    if answer is not None or depth == 0:
        return bool(answer)
    found = results(module, node) if isinstance(node, ast.Call) else stands_for(module, node)
    return any(follows(m, value, test, depth - 1) for m, value in found)


def is_ddp(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a model wrapped in DDP."""
    return follows(module, node, _wrapped)


def _wrapped(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if isinstance(node, ast.Call):
        name = module.name(node.func)
        if name.endswith(DDP):
            return True
        if name.endswith("torch.compile") and node.args:
            return node.args[0]
        if method_name(node) in KEEP:
            return receiver(node)
    if isinstance(node, ast.IfExp) and source(node.body) == f"{source(node.orelse)}.module":
        return node.body  # model.module if ddp else model
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return False
    if isinstance(node, ast.Attribute) and binding(module, node) is None:
        fields = field_types(module, node.attr, _class_of(module, node.value))
        return True if fields and all(f.endswith(DDP) for f in fields) else None
    if (given := parameter(module, node)) and given.annotation:
        return True if module.name(given.annotation).endswith(DDP) else None
    return None


KEEP = {"to", "cuda", "cpu", "train", "eval", "float", "half", "double", "bfloat16"}


def _class_of(module: Module, node: ast.expr) -> str:
    """The name of an object's class, where it is `self` or a parameter with a type."""
    owner = module.owner(node)
    if source(node) == "self" and owner:
        return owner.name
    given = parameter(module, node)
    return last_part(module.name(given.annotation)) if given and given.annotation else ""


def field_types(module: Module, attribute: str, owner: str = "") -> list[str]:
    """The types that classes of the program, or the one of this name, state for an attribute."""
    return [n for of, n in module.program.fields.get(attribute, []) if owner in ("", of)]


def mentions(module: Module, node: ast.expr, pattern: str, depth: int = 3) -> bool:
    """Whether an expression contains a pattern, itself or in what its names stand for."""
    if re.search(pattern, source(node), re.IGNORECASE):
        return True
    if depth == 0:
        return False
    for part in module.below(node):
        found = stands_for(module, part)
        if any(mentions(m, v, pattern, depth - 1) for m, v in found if v is not node):
            return True
    return False
