"""O1, O2: what is said, and by whom. O3 is with the other collectives."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import is_called, uses
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    matches,
    method_name,
    names_in,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.guards import conditional, guarded, in_lambda
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, mentions
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.ranks import collectives

_TRACKERS = (
    "wandb.init",
    "mlflow.start_run",
    "torch.utils.tensorboard.SummaryWriter",
    "torch.utils.tensorboard.writer.SummaryWriter",
    "tensorboardX.SummaryWriter",
)
_SHOWS = re.compile(
    r"print|[\w.]*(logger|log|logging|wandb)\.(info|log)|[\w.]+\.(add_scalar|set_postfix(_str)?)"
)


@rule(
    "O1",
    "every rank prints this in every turn of the loop",
    "print on rank 0 only",
)
def every_rank_prints(module: Module) -> Iterator[ast.AST]:
    # Where ranks call each other they are different parts, one of which may be the one that talks.
    if module.program.says(r"builtins?__?\.print|\bdef print\(|distributed(\.| import )rpc\b"):
        return
    for call in module.called("print"):
        if not matches(call, r"rank|gpu_?id") and in_training(module, call):
            yield call


def in_training(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether a loop that trains comes here on every rank, by calls that no condition guards."""
    if conditional(module, node) or in_lambda(module, node):
        return False
    loop, function = module.loop(node), module.function(node)
    if loop and any(goes_backward(module, inner) for inner in module.calls_below(loop)):
        return True
    if depth == 0 or function is None or re.search(r"rank|master|primary|_main", function.name):
        return False
    if any(matches(d, r"rank|main|master") for d in function.decorator_list):
        return False
    called = ((m, use) for m, use in uses(module, function) if is_called(m, use))
    return any(in_training(other, use, depth - 1) for other, use in called)


@rule(
    "O1",
    "every rank opens a run of the tracker",
    "open it on rank 0 only",
    severity=WARNING,
)
def every_rank_tracks(module: Module) -> Iterator[ast.AST]:
    yield from (call for call in module.called(*_TRACKERS) if not guarded(module, call))


@rule(
    "O1",
    "every rank draws a progress bar",
    "pass disable=rank != 0",
)
def every_rank_draws(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if re.fullmatch(r"tqdm(\.auto)?\.(tqdm|trange)", name):
            if keyword(call, "disable") is None and not guarded(module, call):
                loops = (n for n in module.above(call) if isinstance(n, ast.For))
                around = next((n for n in loops if call in module.below(n.iter)), None)
                inside = module.calls_below(around or module.scope(call))
                if any(goes_backward(module, inner) for inner in inside):
                    yield call


@rule(
    "O2",
    "each rank evaluates its share and nothing adds the shares up: the metric is one rank's own",
    "reduce sums and counts over all ranks, then divide",
)
def metrics_of_one_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"reduce|gather|torchmetrics|synchronize|over_ranks"):
        return
    for call in module.called("DistributedSampler"):
        dataset = keyword(call, "dataset", 0)
        if matches(dataset, r"(^|[_.])(val|test|eval|dev)(id|ing|uation)?([_.]|set|data|$)"):
            yield call


def all_data_shared(module: Module) -> bool:
    """Whether every loader of a program has a share of the data: by its sampler, or as a subset."""
    loaders = module.program.called("DataLoader")
    return bool(loaders) and all(_has_share(m, call) for m, call in loaders)


def _has_share(module: Module, loader: ast.Call) -> bool:
    if keyword(loader, "sampler", 3) or keyword(loader, "batch_sampler", 4):
        return True
    data = keyword(loader, "dataset", 0)
    part = data is not None and mentions(module, data, r"Subset\(|\bshard\(|by_node\(|::")
    return part and data is not None and mentions(module, data, "rank")


@rule(
    "O2",
    "each rank evaluates its share here, and nothing adds the shares up",
    "reduce sums and counts over all ranks, then divide",
)
def share_returned(module: Module) -> Iterator[ast.AST]:
    if not all_data_shared(module) or module.program.says("torchmetrics"):
        return
    for function in module.all_functions:
        joined = any(re.search("reduce|gather", n) for n in collectives(module, function, 3))
        if _evaluates(module, function) and not joined:
            looped = False
            for node in module.below(function):
                looped = looped or isinstance(node, ast.For)
                if looped and isinstance(node, ast.Return) and node.value:
                    if mentions(module, node.value, r" / |\.item\(\)|\.mean\(|\.compute\(", 1):
                        yield node


def _evaluates(module: Module, function: Function) -> bool:
    """Whether a function measures a network: by its name, or in evaluation mode."""
    if re.match(r"(run_)?(eval|valid)", function.name):
        return True
    switches = any(
        matches(receiver(c), r"model|net|critic|encoder|disc|student") and not c.args
        for c in module.methods("eval", below=function)
    )
    return switches and not list(module.methods("backward", below=function))


@rule(
    "O2",
    "the sum of all ranks goes into a copy that nobody keeps",
    "give the tensor a name, reduce it, and use it",
)
def reduced_copy(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        value = keyword(call, "tensor", 0)
        if name != "torch.distributed.all_reduce" or value is None:
            continue
        cloned = isinstance(value, ast.Call) and method_name(value) == "clone"
        if cloned or isinstance(value, ast.BinOp):
            yield value


def divided(name: str) -> str:
    """A pattern of what divides or multiplies a variable."""
    return rf"\b{name}\b(\.\w+\(\))* /|\b{name}\.(true_)?(div|mul)|\b{name} \*="


@rule(
    "O2",
    "the sum over all ranks is shown for the loss: it grows with their number",
    "divide by dist.get_world_size(), or reduce with op=dist.ReduceOp.AVG",
)
def sum_shown(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        value, op = keyword(call, "tensor", 0), keyword(call, "op", 1)
        if not isinstance(value, ast.Name) or keyword(call, "group", 2):
            continue
        if not _is_about_loss(module, value):
            continue
        scope, found = module.scope(call), binding(module, value)
        given = next((v for _, v in arguments(module, value)), None)
        divides = rf"{divided(value.id)}|reduction='sum'|\b{value.id} \+?= .*\.sum\("
        averages = op is not None and not matches(op, "SUM$")
        made = found.value if found else given
        shared = matches(made, "/") if found else matches(made, r"world|ranks|get_world_size")
        shared = shared or (matches(scope, divides) and not _by_interval(module, value))
        if made is None or shared or averages:
            continue
        for inner in module.calls_below(scope):
            if inner.lineno > call.lineno and _SHOWS.fullmatch(source(inner.func)):
                if module.reads(value.id, inner):
                    yield inner
                    break


@rule(
    "O2",
    "called a mean, and the sum of all ranks: it grows with their number",
    "divide by dist.get_world_size(), or reduce with op=dist.ReduceOp.AVG",
)
def sum_called_mean(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_reduce"):
        value, op, function = (
            keyword(call, "tensor", 0),
            keyword(call, "op", 1),
            module.function(call),
        )
        averages = op is not None and not matches(op, "SUM$")
        if function is None or averages or keyword(call, "group", 2) or value is None:
            continue
        if re.search(r"(^|_)(mean|avg|average)(d|_|$)", function.name):
            if not matches(function, r" /=? |\.div_?\(|\.mul_\(|true_divide|\.mean\("):
                yield call


def _by_interval(module: Module, value: ast.Name) -> bool:
    """Whether a sum is divided by numbers that are written out alone: by steps, not by ranks."""
    divisions = [
        operands(node, ast.Div)
        for node in module.below(module.scope(value))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    ]
    by = [sides[1] for sides in divisions if value.id in names_in(sides[0])]
    return bool(by) and all(isinstance(constant(number), int) for number in by)


def _is_about_loss(module: Module, value: ast.Name) -> bool:
    """Whether a variable is called a loss, or such are added to the variable."""
    sums = (n for n in module.below(module.scope(value)) if isinstance(n, ast.AugAssign))
    added = (n.value for n in sums if source(n.target) == value.id)
    return "loss" in value.id or any(matches(each, r"^\w*loss(\.detach\(\))?$") for each in added)
