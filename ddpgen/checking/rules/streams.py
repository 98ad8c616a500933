"""S5, S6: streams, and random numbers."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.dealing import streams
from ddpgen.checking.reading.expressions import Function, constant, keyword, names_in, source
from ddpgen.checking.reading.programs import Module, leads_to, once
from ddpgen.checking.reading.values import binding, mentions
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.alone import WRAPPED
from ddpgen.checking.rules.data import LOADER
from ddpgen.checking.rules.output import in_training

_PARTS = r"rank|shard|replica|split_by|node|partition|process"
_GLOBAL_SEEDS = (
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.default_generator.manual_seed",
    "numpy.random.seed",
    "random.seed",
)
_DRAWS_FROM_TORCH = r"transforms\.(v2\.)?(Random|ColorJitter|TrivialAugment|AutoAugment)"
_AUGMENTS = (
    r"Random(Resized|Horizontal|Vertical|Crop|Rotation|Affine|Erasing|Augment|Apply|Choice)\w*\(|"
    r"AutoAugment|ColorJitter|TrivialAugment|albumentations|Dropout\(|"
    r"dropout\w*=0?\.\d*[1-9]"
)
# Of torch, from the global generator.
_DRAWS = (
    *("randn", "rand", "randint", "randn_like", "rand_like"),
    *("normal", "bernoulli", "multinomial"),
)


# What is read is another stream, which may be the one that is split.
_WRAPS = r"in (enumerate\()?self\.\w*(reader|loader|dataset|source|stream|inner|base)"


@rule(
    "S5",
    "every rank and worker reads the whole stream: samples come several times",
    "give each (rank, worker) its part in __iter__, from get_rank() and get_worker_info()",
)
def stream_not_split(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"split_by_(node|rank|worker)"):  # stages behind it deal it out
        return
    for node in streams(module):
        text = "\n".join(map(source, node.body))
        work = _at_work(node)
        parts = re.search(_PARTS, work, re.IGNORECASE) or re.search(_WRAPS, work)
        if not parts or ("worker" not in text and _workers(module, node.name)):
            yield node


def _at_work(node: ast.ClassDef) -> str:
    """What a stream does, rather than what it was given: its __init__ counts where it computes."""
    texts = []
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            texts += [source(n) for n in ast.walk(part) if isinstance(n, ast.BinOp | ast.Subscript)]
        elif isinstance(part, ast.FunctionDef):
            does = part.body[1:] if ast.get_docstring(part) else part.body  # words do nothing
            texts += map(source, does)
    return "\n".join(texts)


def _workers(module: Module, name: str) -> bool:
    """Whether a loader with worker processes reads a dataset of this class, directly."""
    for call in module.called(LOADER):
        dataset, workers = keyword(call, "dataset", 0), keyword(call, "num_workers", 5)
        if dataset is None or type(constant(workers)) is not int or constant(workers) == 0:
            continue
        if isinstance(dataset, ast.Name) and (found := binding(module, dataset)):
            dataset = found.value
        if isinstance(dataset, ast.Call) and module.name(dataset.func).endswith(name):
            return True
    return False


@rule(
    "S5",
    "asks which worker it is, and then every worker reads the same",
    "use the worker's number where the samples are chosen",
)
def worker_without_effect(module: Module) -> Iterator[ast.AST]:
    for call in module.called("get_worker_info"):
        known = module.statement(call)
        if module.function(call) is None or not isinstance(known, ast.Assign):
            continue
        around = module.below(module.scope(call))
        names = _stored(known)
        for statement in (n for n in around if isinstance(n, ast.Assign)):
            if names & names_in(statement.value):
                names |= _stored(statement)
        reads = [node for name in names for node in module.reads(name, module.scope(call))]
        if all(names & _stored(module.statement(node)) for node in reads):
            yield call


def _stored(statement: ast.stmt) -> set[str]:
    """The names that an assignment sets."""
    if not isinstance(statement, ast.Assign):
        return set()
    return names_in(*statement.targets)


@rule(
    "S6",
    "every sample is drawn with the same seed: they all get the same augmentation",
    "seed with the sample's number and the epoch, or not here",
)
def same_seed_for_samples(module: Module) -> Iterator[ast.AST]:
    for name in ("__getitem__", "__getitems__"):
        for function in module.functions.get(name, []):
            own = [a.arg for a in function.args.args[1:]]
            for call in module.calls_below(function):
                if call.args and leads_to(module, call, _seeds, 1):
                    texts = " ".join(map(source, call.args))
                    moves = any(mentions(module, a, "|".join(own)) for a in call.args if own)
                    if not moves and not re.search(r"epoch|step|count|rank", texts):
                        yield call


def _seeds(module: Module, call: ast.Call) -> bool | None:
    """Whether a call seeds a global generator."""
    return module.name(call.func) in _GLOBAL_SEEDS or None


@rule(
    "S6",
    "all ranks draw the same random numbers, so that augmentation or noise repeats on each of them",
    "add the rank to the seed (the model's initial weights are sent by DDP)",
)
def seed_without_rank(module: Module) -> Iterator[ast.AST]:
    program = module.program
    differs = r"seed_worker|worker_seed|def worker_init|seed_offset"
    alike = r"parallelize_module|distributed\.tensor\.parallel"  # ranks that share out a layer
    if program.says(differs) or program.says(alike):
        return
    if not program.says(_AUGMENTS) and not any(map(_draws_in_training, program.modules)):
        return
    seeds = [
        (m, call)
        for m, call in program.called(*_GLOBAL_SEEDS)
        if call.args
        and _reaches_ranks(m, call)
        and not re.search("(?<!default_)generator", source(call.func))
    ]
    own = [(m, c) for m, c in seeds if mentions(m, c.args[0], r"rank|seed_offset|worker")]
    if own and (any(map(_of_torch, own)) or not program.says(_DRAWS_FROM_TORCH)):
        return
    torch_seeds = [c for m, c in seeds if m is module and _of_torch((m, c))]
    yield from (c for c in torch_seeds if _trains(module, c))


def _of_torch(seed: tuple[Module, ast.Call]) -> bool:
    return seed[0].name(seed[1].func).startswith("torch")


def _reaches_ranks(module: Module, call: ast.Call, depth: int = 3) -> bool:
    """Whether ranks make a call: a parent's seed does not reach the processes that it starts."""
    scope = module.scope(call)
    if any(module.scope(start) is scope for start in module.called("torch.multiprocessing.spawn")):
        return False
    callers = module.program.names.get(scope.name, []) if isinstance(scope, Function) else []
    return not callers or depth == 0 or any(_reaches_ranks(m, c, depth - 1) for m, c in callers)


@once
def _draws_in_training(module: Module) -> bool:
    """Whether random tensors of the global generator are part of a step."""
    calls = module.called(*(f"torch.{name}" for name in _DRAWS))
    own = (call for call in calls if keyword(call, "generator") is None)
    # A single number is drawn for a decision, in which ranks have to be alike.
    many = (call for call in own if not re.search(r"\((1|\(\)|\(1,\))[,)]", source(call)))
    return any(in_training(module, call) for call in many)


def _trains(module: Module, call: ast.Call) -> bool:
    function = module.function(call)
    return function is None or not re.search(r"test|eval|init_weights", function.name)


@rule(
    "S6",
    "every worker gets the same seed, so that they all draw the same augmentation",
    "derive the seed from torch.initial_seed() in the worker, which differs",
)
def same_seed_in_workers(module: Module) -> Iterator[ast.AST]:
    for call, worker in _seeds_of_workers(module):
        if not mentions(module, call.args[0], rf"\b{worker}\b|initial_seed|worker|rank"):
            yield call


@rule(
    "S6",
    "workers of all ranks get these seeds, in every epoch: ranks draw the same augmentation",
    "derive the seed from torch.initial_seed() in the worker, which differs",
)
def same_seed_on_ranks(module: Module) -> Iterator[ast.AST]:
    if module.program.says(WRAPPED):
        for call, worker in _seeds_of_workers(module):
            seed = call.args[0]
            found = binding(module, seed) if isinstance(seed, ast.Name) else None
            if names_in(found.value if found else seed) == {worker}:
                yield call


def _seeds_of_workers(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Calls that seed a DataLoader's worker, and the name of its number."""
    for call in module.called(LOADER):
        given = keyword(call, "worker_init_fn")
        bodies: list[ast.Lambda | Function] = [given] if isinstance(given, ast.Lambda) else []
        if isinstance(given, ast.Name):
            bodies += module.functions.get(given.id, [])
        for body in bodies:
            worker = body.args.args[0].arg if body.args.args else "worker_id"
            for seed in module.calls_below(body):
                if seed.args and re.search(r"(^|\.|_)seed$", source(seed.func)):
                    yield seed, worker
