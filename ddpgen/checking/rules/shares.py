"""S3: shares of one list, which are parts of one whole only if all ranks have the same order."""

import ast
import re
from collections.abc import Callable, Iterator

from ddpgen.checking.reading.agreements import GIVES
from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    method_name,
    operands,
    receiver,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import LIBRARIES, OWN, commonly_seeded
from ddpgen.checking.reading.values import (
    Binding,
    arguments,
    binding,
    mentions,
    parameter,
    results,
    stands_for,
)
from ddpgen.checking.registry import WARNING, rule

DEPTH = 5
_WORLD = r"world|replicas|\bn_?(ranks|gpus|procs)\b|num_(ranks|gpus|proc)|size"
_LISTS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
_KEEPS_ORDER = ("list", "tuple", "map", "filter", "array", "enumerate", "tolist", "copy", "asarray")
# True and False are answers about an order, None asks to look at where it comes from.
Test = Callable[[Module, ast.expr], bool | None]


@rule(
    "S3",
    "each rank draws this split by itself: what one rank trains on, another one evaluates",
    "give all ranks one seed: generator=torch.Generator().manual_seed(0), random_state=0, seed=0",
)
def split_by_each_rank(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if last_part(name) not in ("random_split", "train_test_split") and (
            method_name(call) != "train_test_split"
        ):
            continue
        seed, kind = _seed_of_split(module, call, name)
        if not kind or unpacks(call) or _agreed(module, call) or not on_ranks(module, call):
            continue
        given = seed is not None and not (isinstance(seed, ast.Constant) and constant(seed) is None)
        own = seed is not None and given and mentions(module, seed, OWN)
        if own or (not given and not commonly_seeded(module, kind)):
            if not guarded(module, call):
                yield call


def _seed_of_split(module: Module, call: ast.Call, name: str) -> tuple[ast.expr | None, str]:
    """The seed or generator that a split is given, and whose numbers it draws otherwise."""
    if constant(keyword(call, "shuffle")) is False or module.callees(call):
        return None, ""
    if name.startswith("torch.utils.data") and last_part(name) == "random_split":
        return keyword(call, "generator", 2), "torch"
    if name == "sklearn.model_selection.train_test_split":
        return keyword(call, "random_state"), "numpy"
    if method_name(call) == "train_test_split" and not module.program.foreign(module, call.func):
        return keyword(call, "seed") or keyword(call, "generator"), "numpy"
    return None, ""


@rule(
    "S3",
    "each rank has shuffled this list by itself: the shares overlap, and some of it nobody sees",
    "shuffle with one seed on all ranks, as random.Random(seed + epoch), or after the share",
)
def share_of_own_order(module: Module) -> Iterator[ast.AST]:
    for node, whole in _shares(module):
        if on_ranks(module, node) and _comes_from(module, whole, _shuffled):
            yield node


@rule(
    "S3",
    "files come in the order of a node's file system: on several nodes these shares may overlap",
    "sort the list before the ranks take their shares",
    severity=WARNING,
)
def share_of_unsorted_files(module: Module) -> Iterator[ast.AST]:
    for node, whole in _shares(module):
        if on_ranks(module, node) and _comes_from(module, whole, _listed):
            yield node


def _shares(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Where a rank takes its part of a list, and the list."""
    for node in module.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            low, step = node.slice.lower, node.slice.step
            if low is not None and mentions(module, low, r"rank", 2):
                every = step is not None and mentions(module, step, _WORLD, 2)
                if every or (step is None and _is_product(module, low)):
                    yield node, node.value
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            split = last_part(module.name(node.value.func))
            if split in ("array_split", "chunk") and mentions(module, node.slice, r"rank", 1):
                yield node, node.value.args[0] if node.value.args else node.value
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            part = node.generators[0]
            if any(_picks(module, test) for test in part.ifs):
                yield node, part.iter


def _is_product(module: Module, node: ast.expr) -> bool:
    found = binding(module, node) if isinstance(node, ast.Name) else None
    return bool(operands(found.value if found else node, ast.Mult))


def _picks(module: Module, test: ast.expr) -> bool:
    """Whether a condition is `number % world == rank`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = [test.left, test.comparators[0]]
    modulo = [side for side in sides if operands(side, ast.Mod)]
    rank = [side for side in sides if side not in modulo]
    return bool(modulo and rank) and mentions(module, rank[0], r"rank", 1)


def _comes_from(module: Module, node: ast.expr, test: Test, depth: int = DEPTH) -> bool:
    """Whether what passes a test has made the order of a list, and nothing orders it anew."""
    answer = test(module, node)
    if answer is not None or depth == 0:
        return bool(answer)
    return any(
        _comes_from(other, value, test, depth - 1) for other, value in _sources(module, node)
    )


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
    elif isinstance(node, ast.BinOp):
        yield from ((module, each) for each in operands(node, ast.Add))
    elif isinstance(node, ast.Subscript):
        yield module, node.value


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
    return sorts is not None or _agreed(module, node)


def _agreed(module: Module, node: ast.AST) -> bool:
    return matches(module.scope(node), GIVES)


def _listed(module: Module, node: ast.expr) -> bool | None:
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
    given = parameter(module, node)
    annotated = given and given.annotation and matches(given.annotation, r"\bPath\b")
    return bool(annotated) or mentions(module, node, r"\b(pathlib\.)?Path\(", 2)


def _shuffled(module: Module, node: ast.expr) -> bool | None:
    """Whether a list was shuffled by numbers that only this rank draws."""
    if isinstance(node, ast.Name | ast.Attribute):
        before = (
            call
            for call in module.methods("shuffle", below=module.scope(node))
            if call.lineno < node.lineno and call.args and source(call.args[0]) == source(node)
        )
        if not _ordered(module, node) and any(_draws_alone(module, call) for call in before):
            return True
        return None
    if not isinstance(node, ast.Call):
        return None
    name = last_part(module.name(node.func)) or method_name(node)
    if "sort" in name:
        return False
    if name in ("permutation", "randperm") or module.name(node.func) == "random.sample":
        return _draws_alone(module, node)
    return None


def _draws_alone(module: Module, call: ast.Call) -> bool:
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
