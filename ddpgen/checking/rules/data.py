"""S1, S3, S7, S8: who sees which sample."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import GIVES
from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.conditions import WITHOUT_DDP, conditions
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    method_name,
    receiver,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import commonly_seeded
from ddpgen.checking.reading.values import follows, mentions
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import rule

# How ranks get their shares of a data set.
_DEALS = r"DistributedSampler|split_dataset_by_node|\.shard\("
_SAME_DATA = ("map", "filter", "select", "with_format", "remove_columns", "cast", "flatten")
_EVEN = r"//|%|drop_last|pad"
SAMPLER = "DistributedSampler"
LOADER = "torch.utils.data.DataLoader"
EVALUATION = r"(?<![a-z])(val|valid|validation|test|eval|evaluation|dev)(?![a-z])"


def loaders(module: Module) -> Iterator[ast.Call]:
    """DataLoaders whose arguments are all visible, on the way that DDP takes."""
    for call in module.called(LOADER, "DataLoader"):
        name = module.name(call.func).replace("data.dataloader.", "data.")
        if name in ("DataLoader", LOADER) and not unpacks(call):
            if not guarded(module, call, WITHOUT_DDP):
                yield call


@rule(
    "S1",
    "every rank shuffles through all samples: an epoch takes as long as on one rank",
    "give the DataLoader sampler=DistributedSampler(dataset), and no shuffle",
)
def no_sampler(module: Module) -> Iterator[ast.AST]:
    for call in loaders(module):
        sampler = keyword(call, "sampler", 3) or keyword(call, "batch_sampler", 4)
        shuffle = keyword(call, "shuffle", 2)
        local = sampler is not None and follows(module, sampler, _of_all_samples)
        if (sampler is None or local) and not _sharded(module, call):
            shuffles = shuffle is not None and constant(shuffle) is not False
            if shuffles or local or _map_style(module, call):
                if not matches(module.statement(call), EVALUATION):
                    yield call


def _of_all_samples(_: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether a sampler goes through all samples, whatever the rank."""
    if not isinstance(node, ast.Call):
        return None if isinstance(node, ast.Name | ast.Attribute) else False
    if matches(node.func, r"^(\w+\.)*BatchSampler$"):
        return keyword(node, "sampler", 0)
    return matches(node.func, r"^(\w+\.)*(Random|Sequential)Sampler$")


def _sharded(module: Module, call: ast.Call) -> bool:
    dataset = keyword(call, "dataset", 0)
    pattern = r"shard|rank|split_by_node|local_indices|partition"
    return (
        dataset is None or mentions(module, dataset, pattern) or "data.distributed" in source(call)
    )


def _map_style(module: Module, call: ast.Call) -> bool:
    """A training set that is certainly asked for samples by number."""
    dataset = keyword(call, "dataset", 0)
    return dataset is not None and follows(module, dataset, _is_map_style)


def _is_map_style(module: Module, node: ast.expr) -> bool | None:
    names = r"TensorDataset|Subset|ImageFolder|CIFAR100?|MNIST|FakeData"
    name = last_part(module.name(node.func)) if isinstance(node, ast.Call) else ""
    return re.fullmatch(names, name) is not None or None


@rule(
    "S7",
    "the parts differ in length by one: ranks with fewer batches leave the others waiting",
    "cut or pad to a multiple of the world size, or use DistributedSampler, which pads",
)
def uneven_parts(module: Module) -> Iterator[ast.AST]:
    if not any("backward" in m.program.names for m in module.program.modules):
        return
    for node in module.nodes:
        if not isinstance(node, ast.Slice) or node.step is None or node.lower is None:
            continue
        every = matches(node.step, r"world|num_replicas|n_ranks|num_ranks")
        if every and matches(node.lower, r"rank"):
            statement = module.statement(node)
            place = source(statement) + getattr(module.function(node), "name", "")
            cut = module.parents[node]
            whole = isinstance(cut, ast.Subscript) and mentions(module, cut.value, _EVEN)
            if re.search(r"train|Subset", place) and not whole:
                yield node.lower


@rule(
    "S7",
    "ranks have batches of different sizes: those with fewer batches leave the others waiting",
    "give all ranks the same batch size",
)
def batch_by_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.called(LOADER):
        size = keyword(call, "batch_size", 1)
        if size is not None and re.search(r"(?<!world_)(?<!per_)\brank\b|get_rank\(", source(size)):
            yield size


@rule(
    "S7",
    "ranks make different numbers of turns here: those with fewer leave the others waiting",
    "let all ranks make as many turns",
)
def turns_by_rank(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.For) and matches(node.iter, r"^(range|islice|itertools\.islice)\("):
            by_rank = re.search(
                r"(?<!world_)(?<!per_)(?<![\w.])rank\b|get_rank\(", source(node.iter)
            )
            if by_rank and any(goes_backward(module, call) for call in module.calls_below(node)):
                yield node.iter


@rule(
    "S8",
    "DistributedSampler repeats samples to fill up, and the metric counts them twice",
    "leave the repeated ones out of the sums, or shard without padding and reduce sums and counts",
)
def padding_counted(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"gather_for_metrics|Subset\(|duplicat|unique\(|// *world"):
        return
    for call in module.called(SAMPLER):
        dataset = keyword(call, "dataset", 0)
        corrected = matches(module.scope(call), r"total_size|num_samples|padding")
        dropped = constant(keyword(call, "drop_last", 5)) is True
        if _evaluates(module, call, dataset) and not dropped and not corrected:
            yield call


def _evaluates(module: Module, call: ast.Call, dataset: ast.expr | None) -> bool:
    """Whether data is for an evaluation, by its name, its user's, or who comes here."""
    statement = module.statement(call)
    names = [dataset, *(statement.targets if isinstance(statement, ast.Assign) else [])]
    if any(matches(name, EVALUATION) for name in names):
        return True
    trains = r"(is_)?train(ing)?"
    return any(re.fullmatch(trains, source(t)) and not o for t, o in conditions(module, call))


@rule(
    "S8",
    "drop_last leaves the samples of each rank's last batch out of the metric",
    "leave drop_last out where a metric is computed, and reduce sums and counts",
)
def last_batch_dropped(module: Module) -> Iterator[ast.AST]:
    for call in module.called(LOADER):
        dropped = keyword(call, "drop_last")
        evaluates = _evaluates(module, call, keyword(call, "dataset", 0))
        if evaluates and constant(dropped) is True and dropped is not None:
            yield dropped


@rule(
    "S8",
    "the evaluation ends behind its first batch: the metric says nothing of the other samples",
    "let the loop go on to its end, or give the loader the samples that are meant",
)
def first_batch_alone(module: Module) -> Iterator[ast.AST]:
    for loop in module.nodes:
        if isinstance(loop, ast.For) and any(isinstance(n, ast.AugAssign) for n in loop.body):
            place = f"{source(loop.iter)} {getattr(module.function(loop), 'name', '')}"
            if re.search("(?<![a-z])(dev|eval|test|val)", place):
                yield from (node for node in loop.body if isinstance(node, ast.Break))


@rule(
    "S3",
    "each rank shuffles this data set by itself: the shares overlap, and some of it nobody sees",
    "give all ranks one seed: shuffle(seed=seed)",
)
def hugging_face_order(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("shuffle"):
        seed = keyword(call, "seed", 0) or keyword(call, "generator", 1)
        if unpacks(call) or module.callees(call) or matches(module.scope(call), GIVES):
            continue
        unseeded = seed is None or (isinstance(seed, ast.Constant) and seed.value is None)
        if not unseeded or not follows(module, receiver(call), _of_hugging_face):
            continue
        if on_ranks(module, call) and not guarded(module, call):
            if module.program.says(_DEALS) and not commonly_seeded(module, "numpy"):
                yield call


def _of_hugging_face(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether the datasets library has made a data set."""
    if isinstance(node, ast.Subscript):
        return node.value
    if isinstance(node, ast.Call):
        if re.match(r"datasets\.(load_|\w*Dataset)", module.name(node.func)):
            return True
        return receiver(node) if method_name(node) in _SAME_DATA else None
    return None
