"""S1-S4: the sampler that deals out the order, and its arguments."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import WITHOUT_DDP
from ddpgen.checking.reading.dealing import shares
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    last_part,
    matches,
    positional,
    source,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.nodes import is_local_rank, of_a_node, on_one_node
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions, stands_for
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.data import LOADER, SAMPLER

# Numbers that each process finds for itself.
_OWN = r"getpid\(|urandom\(|time\(\)|time_ns\(\)|randint\(|randrange\(|secrets\."
_ASKS_RANK = r"environ(\[|\.get\()[\"']RANK[\"']"


@rule(
    "S1",
    "a fixed share: every rank sees the same samples",
    "leave num_replicas and rank out, or pass the world size and this process's rank",
)
def fixed_share(module: Module) -> Iterator[ast.AST]:
    for call in module.called(SAMPLER):
        rank = keyword(call, "rank", 2)
        if type(constant(rank)) is int and not guarded(module, call, WITHOUT_DDP):
            yield call


@rule(
    "S3",
    "the sampler deals out the numbers of another data set than this loader's",
    "give sampler and loader the same data set",
)
def of_another_set(module: Module) -> Iterator[ast.AST]:
    for call in module.called(LOADER):
        data, sampler = keyword(call, "dataset", 0), keyword(call, "sampler", 3)
        for made in _made(module, sampler) if sampler is not None else ():
            dealt = keyword(made, "dataset", 0)
            if isinstance(data, ast.Subscript) and isinstance(dealt, ast.Subscript):
                named = constant(data.slice) and constant(dealt.slice)
                same = source(data.value) == source(dealt.value)
                if named and same and source(data.slice) != source(dealt.slice):
                    yield call


def _made(module: Module, node: ast.expr) -> Iterator[ast.Call]:
    """The samplers that an expression of this file is or stands for."""
    for other, value in ((module, node), *stands_for(module, node)):
        if isinstance(value, ast.Call) and module.name(value.func).endswith(SAMPLER):
            if other is module:
                yield value


@rule(
    "S1",
    "the share is chosen by the local rank: on two nodes two ranks take each share",
    "choose it by the global rank: dist.get_rank()",
)
def share_by_local_rank(module: Module) -> Iterator[ast.AST]:
    if on_one_node(module):
        return
    for call in module.called(SAMPLER):
        rank, ranks = keyword(call, "rank", 2), keyword(call, "num_replicas", 1)
        if rank is not None and not _of_a_node(module, ranks) and is_local_rank(module, rank):
            yield rank
    for share in shares(module, module.tree):
        world = mentions(module, share.step, r"world|replicas", 1)
        if world and not _of_a_node(module, share.step) and is_local_rank(module, share.first):
            yield share.first


@rule(
    "S1",
    "the local rank is given for the rank among all: on two nodes two ranks take each share",
    "choose it by the global rank: dist.get_rank()",
)
def local_rank_given_on(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls if not on_one_node(module) else ():
        for maker in _makers(module, last_part(name)):
            names = positional(maker)
            given = dict(zip(names, call.args, strict=False))
            given |= {k.arg: k.value for k in call.keywords if k.arg}
            ranks = next((given[n] for n in given if re.search("world|replicas", n)), None)
            rank = given.get("rank")
            if rank is not None and ranks is not None and not _of_a_node(module, ranks):
                if is_local_rank(module, rank):
                    yield rank


def _makers(module: Module, name: str) -> Iterator[Function]:
    """The constructors of data sets and samplers of a name."""
    for other, function in module.program.functions.get("__init__", []):
        owner = other.parents[function]
        if isinstance(owner, ast.ClassDef) and owner.name == name:
            if any(matches(base, "Dataset|Sampler|Loader") for base in owner.bases):
                yield function


@rule(
    "S1",
    "the number of this node's ranks is given for that of all: other nodes get the same shares",
    "leave num_replicas and rank out, or pass the world size",
)
def shares_of_a_node(module: Module) -> Iterator[ast.AST]:
    groups = [call for _, call in module.program.called("init_process_group")]
    worlds = {source(world) for call in groups if (world := keyword(call, "world_size", 3))}
    for call in module.called(SAMPLER) if not on_one_node(module) else ():
        rank, ranks = keyword(call, "rank", 2), keyword(call, "num_replicas", 1)
        if ranks is not None and source(ranks) in worlds:
            continue
        if rank is not None and ranks is not None and _of_a_node(module, ranks):
            # Where nodes have data of their own, nobody asks for the global rank.
            asked = module.program.calls("get_rank") or module.program.says(_ASKS_RANK)
            if not is_local_rank(module, rank) or asked:
                yield ranks


def _of_a_node(module: Module, count: ast.expr | None) -> bool:
    values = stands_for(module, count) if count is not None else ()
    return of_a_node(count) or any(of_a_node(value) for _, value in values)


@rule(
    "S3",
    "ranks shuffle with different seeds, so that their shares overlap",
    "give the sampler the same seed on every rank",
)
def seed_by_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.called(SAMPLER):
        seed = keyword(call, "seed", 4)
        if seed is None or mentions(module, seed, r"broadcast|gather|reduce|shared"):
            continue
        if mentions(module, seed, r"rank") or (
            mentions(module, seed, _OWN) and not module.program.starts_ranks
        ):
            yield seed


@rule(
    "S4",
    "a DataLoader takes a sampler or shuffle=True, not both: it raises",
    "leave shuffle out; the sampler shuffles",
)
def shuffle_with_sampler(module: Module) -> Iterator[ast.AST]:
    for call in module.called(LOADER):
        sampler = keyword(call, "sampler", 3)
        if sampler and not isinstance(sampler, ast.Constant):
            if constant(keyword(call, "shuffle", 2)) is True:
                yield call


@rule(
    "S4",
    "this sampler reaches no DataLoader: every rank sees all samples",
    "pass it on: DataLoader(..., sampler=sampler)",
)
def unused_sampler(module: Module) -> Iterator[ast.AST]:
    samplers = set(module.called(SAMPLER))
    for node, target in module.assignments(ast.Name):
        scope = module.scope(node)
        if node.value not in samplers or not isinstance(node.value, ast.Call):
            continue
        elsewhere = [m for m, _ in module.program.references(target.id) if m is not module]
        reads = module.reads(target.id, scope)
        if all(matches(module.parents[n], r"\.set_epoch$") for n in reads):
            if scope is not module.tree or not elsewhere:
                yield node.value
