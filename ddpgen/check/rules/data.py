"""S1-S8: who sees which sample."""

import ast
import re
from collections.abc import Iterator

from ddpgen.check.guards import WITHOUT_DDP, guarded
from ddpgen.check.registry import rule
from ddpgen.check.source import Function, Module, constant, keyword, matches, source, unpacks
from ddpgen.check.values import binding, follows, mentions

_PARTS = r"rank|shard|replica|split_by|node|partition|process"
_EVEN = r"//|%|drop_last|pad"
_SAMPLER = "DistributedSampler"
_LOADER = "torch.utils.data.DataLoader"
_SHARDS = r"\.shard\(|split_dataset_by_node|split_by_node|DistributedSampler|distributed_sampler"
_EVALUATION = r"(?<![a-z])(val|valid|validation|test|eval|evaluation|dev)(?![a-z])"
_AUGMENTS = (
    r"Random(Resized|Horizontal|Vertical|Crop|Rotation|Affine|Erasing|Augment|Apply|Choice)\w*\(|"
    r"AutoAugment|ColorJitter|TrivialAugment|albumentations|Dropout\("
)


def loaders(module: Module) -> Iterator[ast.Call]:
    """DataLoaders whose arguments are all visible, on the way that DDP takes."""
    for call in module.called(_LOADER, "DataLoader"):
        alike = module.name(call.func) not in (
            "DataLoader",
            _LOADER,
            "torch.utils.data.dataloader.DataLoader",
        )
        if not alike and not unpacks(call) and not guarded(module, call, WITHOUT_DDP):
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
        local = sampler is not None and matches(sampler, r"^(\w+\.)*(Random|Sequential)Sampler\(")
        if (sampler is None or local) and not _sharded(module, call):
            shuffles = shuffle is not None and constant(shuffle) is not False
            evaluates = matches(module.statement(call), _EVALUATION)
            if ((shuffles or local) and not evaluates) or (
                not evaluates and _map_style(module, call)
            ):
                yield call


def _sharded(module: Module, call: ast.Call) -> bool:
    dataset = keyword(call, "dataset", 0)
    pattern = r"shard|rank|split_by_node|local_indices|partition"
    return (
        dataset is None or mentions(module, dataset, pattern) or "data.distributed" in source(call)
    )


def _map_style(module: Module, call: ast.Call) -> bool:
    """A training set that is certainly asked for samples by number."""
    dataset = keyword(call, "dataset", 0)
    names = ("TensorDataset", "Subset", "ImageFolder", "CIFAR10", "CIFAR100", "MNIST", "FakeData")
    return dataset is not None and follows(
        module,
        dataset,
        lambda m, n: (
            m.name(n.func).rpartition(".")[2] in names or None if isinstance(n, ast.Call) else None
        ),
    )


@rule(
    "S2",
    "without set_epoch the sampler gives the same order in every epoch",
    "call sampler.set_epoch(epoch) at the start of each epoch",
)
def no_set_epoch(module: Module) -> Iterator[ast.AST]:
    if module.program.calls("set_epoch"):
        return
    for call in module.called(_SAMPLER):
        shuffle = keyword(call, "shuffle", 3)
        if constant(shuffle) is False or matches(module.statement(call), _EVALUATION):
            continue
        if re.search(r"for \w*epoch\w* in|while .*epoch|\.backward\(", module.program.text):
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
    "S3",
    "ranks shuffle with different seeds, so that their shares overlap",
    "give the sampler the same seed on every rank",
)
def seed_by_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.called(_SAMPLER):
        seed = keyword(call, "seed", 4)
        if seed is not None and mentions(module, seed, r"rank"):
            yield seed


@rule(
    "S4",
    "a DataLoader takes a sampler or shuffle=True, not both: it raises",
    "leave shuffle out; the sampler shuffles",
)
def shuffle_with_sampler(module: Module) -> Iterator[ast.AST]:
    for call in module.called(_LOADER):
        if (
            constant(keyword(call, "shuffle", 2)) is True
            and keyword(call, "sampler", 3) is not None
        ) and not isinstance(keyword(call, "sampler", 3), ast.Constant):
            yield call


@rule(
    "S4",
    "this sampler reaches no DataLoader: every rank sees all samples",
    "pass it on: DataLoader(..., sampler=sampler)",
)
def unused_sampler(module: Module) -> Iterator[ast.AST]:
    for call in module.called(_SAMPLER):
        parent = module.parents[call]
        if isinstance(parent, ast.Assign) and isinstance(target := parent.targets[0], ast.Name):
            reads = [
                n
                for n in module.below(module.scope(call))
                if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)
            ]
            if all(matches(module.parents[n], r"\.set_epoch$") for n in reads):
                if module.scope(call) is not module.tree or not _used_elsewhere(module, target.id):
                    yield call


def _used_elsewhere(module: Module, name: str) -> bool:
    found = module.program.references.get(name, [])
    return any(m is not module for m, _ in found)


@rule(
    "S5",
    "every rank and worker reads the whole stream: samples come several times",
    "give each (rank, worker) its part in __iter__, from get_rank() and get_worker_info()",
)
def stream_not_split(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and any(
            source(base).partition("[")[0].endswith("IterableDataset") for base in node.bases
        ):
            text = "\n".join(map(source, node.body))
            parts = re.search(_PARTS, _at_work(node), re.IGNORECASE)
            if not parts or ("worker" not in text and _workers(module, node.name)):
                yield node


def _at_work(node: ast.ClassDef) -> str:
    """What a stream does, rather than what it was given: its __init__ counts where it computes."""
    texts = []
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            texts += [source(n) for n in ast.walk(part) if isinstance(n, ast.BinOp | ast.Subscript)]
        elif isinstance(part, ast.FunctionDef):
            texts.append(source(part))
    return "\n".join(texts)


def _workers(module: Module, name: str) -> bool:
    """Whether a loader with worker processes reads a dataset of this class, directly."""
    for call in module.called(_LOADER):
        dataset, workers = keyword(call, "dataset", 0), keyword(call, "num_workers", 5)
        if dataset is None or type(constant(workers)) is not int or constant(workers) == 0:
            continue
        if isinstance(dataset, ast.Name) and (found := binding(module, dataset)):
            dataset = found.value
        if isinstance(dataset, ast.Call) and module.name(dataset.func).endswith(name):
            return True
    return False


@rule(
    "S6",
    "all ranks draw the same random numbers, so that augmentation repeats on each of them",
    "add the rank to the seed (the model's initial weights are sent by DDP)",
)
def seed_without_rank(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not re.search(_AUGMENTS, program.text) or re.search(
        r"seed_worker|worker_seed|def worker_init|seed_offset", program.text
    ):
        return
    seeds = [
        (m, call)
        for m in program.modules
        for call in m.called(
            "torch.manual_seed", "torch.random.manual_seed", "numpy.random.seed", "random.seed"
        )
        if call.args
        and not (isinstance(call.func, ast.Attribute) and "generator" in source(call.func))
    ]
    if any(mentions(m, call.args[0], r"rank|seed_offset|worker") for m, call in seeds):
        return
    torch_seeds = [c for m, c in seeds if m is module and m.name(c.func).startswith("torch")]
    yield from (c for c in torch_seeds if _trains(module, c))


def _trains(module: Module, call: ast.Call) -> bool:
    function = module.function(call)
    return function is None or not re.search(r"test|eval|init_weights", function.name)


@rule(
    "S6",
    "every worker gets the same seed, so that they all draw the same augmentation",
    "derive the seed from torch.initial_seed() in the worker, which differs",
)
def same_seed_in_workers(module: Module) -> Iterator[ast.AST]:
    for call in module.called(_LOADER):
        given = keyword(call, "worker_init_fn")
        bodies: list[ast.Lambda | Function] = [given] if isinstance(given, ast.Lambda) else []
        if isinstance(given, ast.Name):
            bodies += module.functions.get(given.id, [])
        for body in bodies:
            worker = body.args.args[0].arg if body.args.args else "worker_id"
            for seed in ast.walk(body):
                if (
                    isinstance(seed, ast.Call)
                    and re.search(r"(^|\.|_)seed$", source(seed.func))
                    and seed.args
                    and not mentions(
                        module, seed.args[0], rf"\b{worker}\b|initial_seed|worker|rank"
                    )
                ):
                    yield seed


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
        if matches(node.lower, r"rank") and matches(
            node.step, r"world|num_replicas|n_ranks|num_ranks"
        ):
            statement = module.statement(node)
            place = source(statement) + getattr(module.function(node), "name", "")
            cut = module.parents[node]
            whole = isinstance(cut, ast.Subscript) and mentions(module, cut.value, _EVEN)
            if re.search(r"train|Subset", place) and not whole:
                yield node.lower


@rule(
    "S8",
    "DistributedSampler repeats samples to fill up, and the metric counts them twice",
    "leave the repeated ones out of the sums, or shard without padding and reduce sums and counts",
)
def padding_counted(module: Module) -> Iterator[ast.AST]:
    if re.search(r"gather_for_metrics|Subset\(|duplicat|unique\(|// *world", module.program.text):
        return
    for call in module.called(_SAMPLER):
        dataset = keyword(call, "dataset", 0)
        corrected = matches(module.scope(call), r"total_size|num_samples|IGNORE|padding")
        dropped = constant(keyword(call, "drop_last", 5)) is True
        if dataset is not None and not dropped and not corrected:
            if matches(dataset, _EVALUATION):
                yield call
