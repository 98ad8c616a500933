"""S2, S3, S5, S7: streams that deal their files or samples out to ranks by themselves."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.dealing import READERS, dealt, shares, streams
from ddpgen.checking.reading.expressions import constant, keyword, matches, source
from ddpgen.checking.reading.orders import comes_from, listed
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import bindings, follows, mentions
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.data import LOADER

_RANK = r"(?<!world_)rank|worker"
_COUNT = r"world|replicas|ranks|workers"
_EVEN = r"//|%|pad|islice|min\("


def _streams(module: Module) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    """Classes of streams in which ranks have shares, and the functions that read."""
    for owner in streams(module):
        for function in owner.body if matches(owner, _RANK) else ():
            if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                yield owner, function


@rule(
    "S3",
    "these files come in the order of a node's file system: the ranks' shares may overlap",
    "sort the list of files",
    severity=WARNING,
)
def shares_of_unsorted_files(module: Module) -> Iterator[ast.AST]:
    for _, function in _streams(module):
        for node in module.below(function):
            iterated = isinstance(node, ast.Subscript) and node.value
            if iterated and comes_from(module, iterated, listed):
                yield node


@rule(
    "S7",
    "the shares differ in length by one: ranks with fewer batches leave the others waiting",
    "cut to a multiple of the number of shares, len(order) // count * count, or pad",
)
def uneven_shares(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls("backward"):
        return
    for _, function in _streams(module):
        for node in module.below(function) if not _is_endless(function) else ():
            if isinstance(node, ast.Slice) and node.step and node.lower:
                shared = mentions(module, node.step, _COUNT) and mentions(module, node.lower, _RANK)
                cut = module.parents[node]
                even = [node.upper, getattr(cut, "value", None)]
                cuts = any(n and mentions(module, n, _EVEN) for n in even)
                if shared and not cuts and not _was_cut(module, cut):
                    yield node.lower


def _is_endless(function: ast.FunctionDef) -> bool:
    """Whether a stream begins anew where its files end."""
    loops = (n for n in ast.walk(function) if isinstance(n, ast.While))
    return matches(function, r"\bcycle\(") or any(constant(loop.test) is True for loop in loops)


def _was_cut(module: Module, cut: ast.AST) -> bool:
    """Whether a list was cut to a length before ranks take their shares."""
    if not isinstance(cut, ast.Subscript):
        return False
    found = bindings(module).get((module.scope(cut), source(cut.value)), [])
    return any(matches(each.value, r"\[:") for each in found)


@rule(
    "S5",
    "some of these shares are the same, and others nobody reads: ranks and workers collide",
    "number the readers: rank * workers + worker of world * workers",
)
def shares_collide(module: Module) -> Iterator[ast.AST]:
    for owner in streams(module):
        for share in shares(module, owner):
            pairs = dealt(module, share) or []
            steps = {step for _, step in pairs}
            by_rank, by_worker = (len({f for f, _ in pairs[::n]}) > 1 for n in (2, 1))
            both = by_rank and len({first for first, _ in pairs[:2]}) > 1
            if len(steps) == 1 and both and by_worker:
                places = {first % step for first, step in pairs}
                if len(places) < len(READERS) or steps != {len(READERS)}:
                    yield share.node


@rule(
    "S5",
    "workers share these samples out, and no rank does: each rank reads all of them",
    "number the readers: rank * workers + worker of world * workers",
)
def shares_of_workers(module: Module) -> Iterator[ast.AST]:
    for owner in streams(module):
        found = [(share, dealt(module, share)) for share in shares(module, owner)]
        dealt_out = [(share, pairs) for share, pairs in found if pairs]
        by_rank = any(len({*pairs[::2]}) > 1 for _, pairs in dealt_out)
        by_worker = [s for s, pairs in dealt_out if len({*pairs[:2]}) > 1]
        drawn = matches(owner, r"(seed|Random|default_rng)\w*\([^\n]*rank")
        if by_worker and not by_rank and len(found) == len(dealt_out) and not drawn:
            if not _dealt_before(module, owner):
                yield by_worker[0].node


def _dealt_before(module: Module, owner: ast.ClassDef) -> bool:
    """Whether ranks make a stream of files that are theirs already."""
    made = [(m, call) for m, call in module.program.names.get(owner.name, [])]
    values = ((m, a) for m, c in made for a in (*c.args, *(k.value for k in c.keywords)))
    return any(mentions(m, value, r"rank|shard|split", 2) for m, value in values)


@rule(
    "S2",
    "nobody sets this epoch: the order is the same in every epoch",
    "set the epoch before each loop over the loader: dataset.epoch = epoch",
)
def epoch_never_set(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.calls("set_epoch") or not program.calls("backward"):
        return
    if any(_sets_epoch(other) for other in program.modules):
        return
    for owner in (n for n in module.nodes if isinstance(n, ast.ClassDef)):
        if any(
            re.search(r"Dataset$|Sampler$", source(base).partition("[")[0]) for base in owner.bases
        ):
            for node in module.below(owner):
                if isinstance(node, ast.Attribute) and source(node) == "self.epoch":
                    seeds = matches(module.statement(node), r"seed|Random\(|default_rng")
                    if seeds and isinstance(node.ctx, ast.Load):
                        yield node
                        break


def _sets_epoch(module: Module) -> bool:
    """Whether an `epoch` is set to anything but a literal, or moved on."""
    for (_, text), found in bindings(module).items():
        if text.endswith(".epoch") and any(
            isinstance(each.statement, ast.AugAssign) or not isinstance(each.value, ast.Constant)
            for each in found
        ):
            return True
    return False


@rule(
    "S2",
    "workers that stay keep their copy of the data set: the epoch stays the one they began with",
    "leave persistent_workers out, or put the epoch in memory that workers share",
)
def epoch_of_a_copy(module: Module) -> Iterator[ast.AST]:
    for call in module.called(LOADER, "DataLoader"):
        stays, data = keyword(call, "persistent_workers"), keyword(call, "dataset", 0)
        if constant(stays) is not True or stays is None or data is None:
            continue
        set_later = [
            text
            for (_, text), found in bindings(module).items()
            if text == f"{source(data)}.epoch" and any(module.loop(b.statement) for b in found)
        ]
        told = any(
            source(c.func) == f"{source(data)}.set_epoch" and module.loop(c)
            for c in module.methods("set_epoch")
        )
        if (set_later or told) and not module.program.says(r"share_memory_|multiprocessing\.Value"):
            if not follows(module, data, _map_style):
                yield stays


def _map_style(module: Module, node: ast.expr) -> bool | None:
    """Whether a data set is asked for samples by number, so that a sampler has the epoch."""
    if not isinstance(node, ast.Call):
        return None
    name = source(node.func)
    owners = [n for m in module.program.modules for n in m.nodes if isinstance(n, ast.ClassDef)]
    found = [n for n in owners if n.name == name]
    return not any("__iter__" in source(n) for n in found)
