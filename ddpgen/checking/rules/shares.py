"""S3: shares of one list, which are parts of one whole only if all ranks have the same order."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.dealing import is_stream
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    method_name,
    operands,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.orders import agreed, comes_from, draws_alone, listed, shuffled
from ddpgen.checking.reading.programs import Module, leads_to
from ddpgen.checking.reading.seeds import LIBRARIES, OWN, commonly_seeded
from ddpgen.checking.reading.values import (
    binding,
    mentions,
)
from ddpgen.checking.registry import WARNING, rule

_WORLD = r"world|replicas|\bn_?(ranks|gpus|procs)\b|num_(ranks|gpus|proc)|size"


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
        if not kind or unpacks(call) or agreed(module, call) or not on_ranks(module, call):
            continue
        given = seed is not None and not (isinstance(seed, ast.Constant) and constant(seed) is None)
        own = seed is not None and given and mentions(module, seed, OWN)
        if own or (not given and not _seeded_alike(module, call, kind)):
            if not guarded(module, call):
                yield call


def _seeded_alike(module: Module, call: ast.Call, kind: str) -> bool:
    """Whether all ranks have one seed at a draw: the last one above, or that of the program."""
    same = module.calls_below(module.scope(call))
    above = [
        c for c in same if c.lineno < call.lineno and c.args and leads_to(module, c, _seeds, 1)
    ]
    if above and kind == "torch":
        return not mentions(module, above[-1].args[0], OWN)
    return commonly_seeded(module, kind)


def _seeds(module: Module, call: ast.Call) -> bool | None:
    return module.name(call.func) == "torch.manual_seed" or None


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
        test = _drawn_here if is_stream(module.owner(node)) else shuffled
        if on_ranks(module, node) and comes_from(module, whole, test):
            yield node


@rule(
    "S3",
    "each rank has shuffled this list by itself: a number means another sample on each of them",
    "shuffle with one seed on all ranks, as random.Random(seed + epoch), or after the share",
)
def numbers_of_own_order(module: Module) -> Iterator[ast.AST]:
    if not module.program.called("DistributedSampler"):
        return
    for call in module.methods("shuffle"):
        owner = module.owner(call)
        bases = [source(base) for base in owner.bases] if owner else []
        own = call.args and source(call.args[0]).startswith("self.")
        if own and any(base.endswith("Dataset") for base in bases) and not is_stream(owner):
            if draws_alone(module, call) and on_ranks(module, call):
                yield call


def _drawn_here(module: Module, node: ast.expr) -> bool | None:
    """Whether an order is drawn by a global generator, which is another one in each worker."""
    if isinstance(node, ast.Call):
        library, _, name = module.name(node.func).rpartition(".")
        if name in ("permutation", "randperm", "sample") and library in LIBRARIES:
            return keyword(node, "generator") is None or shuffled(module, node)
    return shuffled(module, node)


@rule(
    "S3",
    "files come in the order of a node's file system: on several nodes these shares may overlap",
    "sort the list before the ranks take their shares",
    severity=WARNING,
)
def share_of_unsorted_files(module: Module) -> Iterator[ast.AST]:
    for node, whole in _shares(module):
        if on_ranks(module, node) and comes_from(module, whole, listed):
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
