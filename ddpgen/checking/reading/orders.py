"""What has made the order of a list: on all ranks the same, or not."""

import ast
import re
from collections.abc import Callable, Iterator

from ddpgen.checking.reading.agreements import GIVES
from ddpgen.checking.reading.expressions import (
    keyword,
    last_part,
    matches,
    method_name,
    names_in,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.given import arguments, parameter
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import LIBRARIES, OWN, commonly_seeded
from ddpgen.checking.reading.values import Binding, binding, mentions, results, stands_for

DEPTH = 5
_LISTS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
_KEEPS_ORDER = ("list", "tuple", "map", "filter", "array", "enumerate", "tolist", "copy", "asarray")
# True and False are answers about an order, None asks to look at where it comes from.
Test = Callable[[Module, ast.expr], bool | None]


def comes_from(module: Module, node: ast.expr, test: Test, depth: int = DEPTH) -> bool:
    """Whether what passes a test has made the order of a list, and nothing orders it anew."""
    answer = test(module, node)
    if answer is not None or depth == 0:
        return bool(answer)
    return any(comes_from(other, value, test, depth - 1) for other, value in _sources(module, node))


def _sources(module: Module, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """What the order of a list comes from."""
    if isinstance(node, ast.Name | ast.Attribute):
        if _ordered(module, node):
            return
        found = binding(module, node)
        if found is None:
            yield from arguments(module, node)
        elif not isinstance(found.statement, ast.For) or matches(found.value, r"^os\.walk\("):
            yield module, found.value
            yield from ((module, value) for value in _added(module, node, found))
    elif isinstance(node, ast.Call):
        yield from results(module, node)
        name = last_part(module.name(node.func)) or method_name(node)
        if name in _KEEPS_ORDER and not module.callees(node):
            inner = node.args[-1:] or [receiver(node)]
            yield from ((module, each) for each in inner)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        yield from ((module, part.iter) for part in node.generators)
    else:
        yield from ((module, each) for each in _parts(node))


def _parts(node: ast.expr) -> list[ast.expr]:
    """The lists that an expression puts together, chooses from, or cuts."""
    if isinstance(node, ast.BinOp):
        return operands(node, ast.Add)
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return [node.value] if isinstance(node, ast.Subscript) else []


def _added(module: Module, node: ast.expr, found: Binding) -> Iterator[ast.expr]:
    """What loops put into a list that began empty."""
    if source(found.value) not in ("[]", "list()"):
        return
    for call in module.methods("append", "extend", below=module.scope(found.statement)):
        if source(receiver(call)) == source(node):
            if method_name(call) == "extend":
                yield from call.args
            elif isinstance(loop := module.loop(call), ast.For):
                yield loop.iter


def _ordered(module: Module, node: ast.expr) -> bool:
    """Whether a list is sorted in place, or made the same on all ranks."""
    sorts = re.search(rf"\b{re.escape(source(node))}\.sort\(", module.text)
    return sorts is not None or agreed(module, node)


def agreed(module: Module, node: ast.AST) -> bool:
    """Whether ranks tell each other something in the function around a node.

    What they gather counts where that is about the same names: they gather other things, too.
    """
    about = names_in(module.statement(node)) - {*module.imports}
    calls = module.calls_below(module.scope(node))
    giving = [call for call in calls if matches(call.func, GIVES)]
    return any("gather" not in source(c.func) or names_in(*c.args) & about for c in giving)


def listed(module: Module, node: ast.expr) -> bool | None:
    """Whether a call lists files in no order."""
    if not isinstance(node, ast.Call):
        return None
    name = module.name(node.func)
    if "sort" in name:
        return False
    if name in _LISTS or method_name(node) in ("iterdir", "rglob"):
        return True
    return (method_name(node) == "glob" and _is_path(module, receiver(node))) or None


def _is_path(module: Module, node: ast.expr) -> bool:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    given = [parameter(module, name) for name in names]
    annotated = any(g and matches(g.annotation, r"\bPath\b") for g in given)
    return annotated or mentions(module, node, r"\b(pathlib\.)?Path\(", 2)


def shuffled(module: Module, node: ast.expr) -> bool | None:
    """Whether a list was shuffled by numbers that only this rank draws."""
    if isinstance(node, ast.Name | ast.Attribute):
        # An attribute may be shuffled in any method of its class.
        owner = module.owner(node) if source(node).startswith("self.") else None
        before = (
            call
            for call in module.methods("shuffle", below=owner or module.scope(node))
            if call.args and source(call.args[0]) == source(node)
            if owner or call.lineno < node.lineno
        )
        if not _ordered(module, node) and any(draws_alone(module, call) for call in before):
            return True
        return None
    if not isinstance(node, ast.Call):
        return None
    name = last_part(module.name(node.func)) or method_name(node)
    if "sort" in name:
        return False
    if name in ("permutation", "randperm") or module.name(node.func) == "random.sample":
        return draws_alone(module, node)
    return None


def draws_alone(module: Module, call: ast.Call) -> bool:
    """Whether a call draws numbers that differ from rank to rank."""
    if guarded(module, call, r"rank"):
        return False
    if generator := keyword(call, "generator"):
        return mentions(module, generator, OWN)
    kind = LIBRARIES.get(module.name(call.func).rpartition(".")[0])
    if kind:
        return not commonly_seeded(module, kind)
    made = receiver(call)
    for _, value in (
        stands_for(module, made) if not isinstance(made, ast.Call) else [(module, made)]
    ):
        if isinstance(value, ast.Call) and re.search(
            r"(^|\.)(Random|default_rng|RandomState)$", module.name(value.func)
        ):
            return not value.args or mentions(module, value.args[0], OWN)
    return False
