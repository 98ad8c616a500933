"""S1-S4: the sampler that deals out the order, and its arguments."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import WITHOUT_DDP
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    matches,
    method_name,
    positional,
    receiver,
    source,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.nodes import is_local_rank, of_a_node, on_one_node
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions, stands_for
from ddpgen.checking.reading.windows import updates
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.data import EVALUATION, LOADER, SAMPLER

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
    for node in module.nodes:
        if isinstance(node, ast.Slice) and node.lower is not None and node.step is not None:
            world = mentions(module, node.step, r"world|replicas", 1)
            if world and not _of_a_node(module, node.step) and is_local_rank(module, node.lower):
                yield node.lower


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
    "S2",
    "without set_epoch the sampler gives the same order in every epoch",
    "call sampler.set_epoch(epoch) at the start of each epoch",
)
def no_set_epoch(module: Module) -> Iterator[ast.AST]:
    told = [receiver(call) for _, call in module.program.names.get("set_epoch", [])]
    if any(not matches(sampler, EVALUATION) for sampler in told):
        return
    for call in module.called(SAMPLER):
        shuffle = keyword(call, "shuffle", 3)
        if constant(shuffle) is False or matches(module.statement(call), EVALUATION):
            continue
        if module.program.says(r"for \w*epoch\w* in|while .*epoch|\.backward\("):
            yield call


@rule(
    "S2",
    "the same number in every epoch: the order never changes",
    "pass the number of the epoch: sampler.set_epoch(epoch)",
)
def constant_epoch(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        if call.args and isinstance(call.args[0], ast.Constant):
            yield call


@rule(
    "S2",
    "without shuffling the order is the same in every epoch, and set_epoch() changes nothing",
    "leave shuffle=False out of the training's sampler",
)
def epochs_of_one_order(module: Module) -> Iterator[ast.AST]:
    told = {source(receiver(call)) for call in module.methods("set_epoch")}
    for node, target in module.assignments(ast.expr):
        made = node.value
        if isinstance(made, ast.Call) and made in {*module.called(SAMPLER)}:
            fixed = constant(keyword(made, "shuffle", 3)) is False
            if fixed and source(target) in told and not matches(node, EVALUATION):
                yield made


@rule(
    "S2",
    "the loop has its order already: this counts from the next epoch on, or never",
    "call sampler.set_epoch(epoch) before the loop over the loader begins",
)
def epoch_set_too_late(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        loop = module.loop(call)
        once = loop and not any(isinstance(n, ast.Break) for n in module.below(loop))
        if isinstance(loop, ast.For) and once and matches(loop.iter, r"load(er)?\b"):
            if any(module.loop(b) is loop for b in module.methods("backward", below=loop)):
                yield call


@rule(
    "S2",
    "this comes behind the epoch's training: the first two epochs have one order",
    "call sampler.set_epoch(epoch) before the loop over the loader begins",
)
def epoch_set_behind(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        loop = module.loop(call)
        if isinstance(loop, ast.For) and call.args and source(call.args[0]) == source(loop.target):
            before = [c for c in module.calls_below(loop) if c.lineno < call.lineno]
            again = any(source(c.func) == source(call.func) for c in before)
            if not again and any(updates(module, c, 2) for c in before):
                yield call


@rule(
    "S2",
    "the same number in every epoch, which reaches set_epoch: the order never changes",
    "pass the number of the epoch",
)
def constant_epoch_handed_on(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        if module.loop(call) is None:
            continue
        for other, function in module.callees(call):
            for name, given in zip(positional(function), call.args, strict=False):
                if type(constant(given)) is int and _reaches_set_epoch(other, function, name):
                    yield given


def _reaches_set_epoch(module: Module, function: Function, name: str, depth: int = 2) -> bool:
    """Whether a parameter becomes a sampler's epoch."""
    for call in module.calls_below(function):
        places = [place for place, given in enumerate(call.args) if source(given) == name]
        if places and method_name(call) == "set_epoch":
            return True
        for other, inner in module.callees(call) if depth else ():
            handed = [n for place, n in enumerate(positional(inner)) if place in places]
            if any(_reaches_set_epoch(other, inner, n, depth - 1) for n in handed):
                return True
    return False


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
