"""S3: data sets that a sampler shares out, and whose order each rank makes for itself."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import keyword, last_part
from ddpgen.checking.reading.orders import Test, comes_from, listed, shuffled
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import follows, stands_for
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.data import SAMPLER


@rule(
    "S3",
    "each rank shuffles these samples by itself: the shares overlap, and some of it nobody sees",
    "shuffle with one seed on all ranks, or not here: the sampler shuffles",
)
def samples_of_own_order(module: Module) -> Iterator[ast.AST]:
    yield from _looked_up(module, shuffled)
    yield from _given(module, shuffled)


@rule(
    "S3",
    "these samples come in the order of a node's file system, and the sampler's shares may overlap",
    "sort the list of files",
    severity=WARNING,
)
def samples_of_unsorted_files(module: Module) -> Iterator[ast.AST]:
    yield from _looked_up(module, listed)
    yield from _given(module, listed)


@rule(
    "S3",
    "each rank chooses these samples by its own draw: the shares are parts of different wholes",
    "draw with one seed on all ranks",
)
def subset_of_own_draw(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.utils.data.Subset"):
        chosen = keyword(call, "indices", 1)
        if chosen is not None and comes_from(module, chosen, shuffled) and on_ranks(module, call):
            if module.program.called(SAMPLER):
                yield call


def _given(module: Module, test: Test) -> Iterator[ast.AST]:
    """Lists of such an order in what makes a data set that a sampler shares out."""
    for call in module.called(SAMPLER):
        data = keyword(call, "dataset", 0)
        for other, made in stands_for(module, data) if data is not None else ():
            if not isinstance(made, ast.Call) or other.name(made.func).endswith(".Subset"):
                continue
            if not other.callees(made) and on_ranks(module, call):
                given = [*made.args, *(each.value for each in made.keywords)]
                if other is module:
                    yield from (each for each in given if comes_from(module, each, test))


def _looked_up(module: Module, test: Test) -> Iterator[ast.AST]:
    """Where a data set that a sampler shares out looks a sample up in a list of such an order."""
    for owner in (n for n in module.nodes if isinstance(n, ast.ClassDef)):
        if not _is_shared_out(module, owner):
            continue
        for function in (f for f in owner.body if isinstance(f, ast.FunctionDef)):
            if function.name in ("__getitem__", "__getitems__"):
                for node in module.below(function):
                    if isinstance(node, ast.Subscript) and comes_from(module, node.value, test):
                        yield node


def _is_shared_out(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a DistributedSampler gets an object of a class, as far as names tell."""

    def is_made(other: Module, node: ast.expr) -> bool | None:
        if isinstance(node, ast.Call):
            return last_part(other.name(node.func)) == owner.name or None
        return None

    for other, call in module.program.called(SAMPLER):
        data = keyword(call, "dataset", 0)
        if data is not None and follows(other, data, is_made) and on_ranks(other, call):
            return True
    return False
