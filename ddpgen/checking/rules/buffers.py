"""B1-B4: BatchNorm and other buffers."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import Function, constant, keyword, matches, source
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, is_ddp
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.device import ON_CPU
from ddpgen.checking.rules.gradients import is_inner
from ddpgen.checking.rules.group import inits

_CONVERT = "convert_sync_batchnorm"
_BATCH_NORM = re.compile(
    r"(?<!Frozen)BatchNorm[123]d|resnet\d|models\.(resnet|mobilenet|densenet|efficientnet)"
)


@rule(
    "B1",
    "converted after the wrap: DDP does not know the new layers",
    "convert first, then move to the device, then wrap",
)
def converted_after_wrap(module: Module) -> Iterator[ast.AST]:
    for call in module.called(_CONVERT):
        for argument in call.args[:1]:
            whole = argument
            if isinstance(argument, ast.Attribute) and argument.attr == "module":
                whole = argument.value
            if is_ddp(module, whole):
                yield call


@rule(
    "B2",
    "SyncBatchNorm needs GPUs, and this program runs on CPUs: the first forward raises",
    "convert only where the device is a GPU",
)
def sync_on_cpu(module: Module) -> Iterator[ast.AST]:
    if module.program.calls("is_available") and module.program.says(ON_CPU):
        for call in module.called(_CONVERT):
            own = module.callees(call)
            if not own and not conditions(module, call):
                yield call
    if module.program.says(r"cuda|nccl|xpu|npu"):
        return
    backends = [keyword(c, "backend", 0) for m in module.program.modules for c in inits(m)]
    if any(constant(backend) == "gloo" for backend in backends):
        yield from module.called(_CONVERT)


@rule(
    "B3",
    "running statistics of BatchNorm drift apart, and each rank evaluates another model",
    "leave broadcast_buffers on, or broadcast the buffers before evaluating and saving",
)
def buffers_not_shared(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if (
        not program.says(_BATCH_NORM)
        or program.says(_CONVERT)
        or program.says(r"\.(named_)?buffers\(\)")
    ):
        return
    for call in module.called(DDP):
        if constant(keyword(call, "broadcast_buffers")) is False:
            yield call


@rule(
    "B3",
    "evaluated around DDP, which shares BatchNorm's statistics: each rank measures another model",
    "broadcast the buffers before, or evaluate on rank 0 alone",
)
def evaluated_apart(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(_BATCH_NORM) or program.says(_CONVERT):
        return
    for call, _ in module.calls:
        function = module.function(call)
        if function is None or not re.match(r"_?(run_)?(eval|valid)", function.name):
            continue
        inner = any(is_inner(module, n) for n in (call.func, *call.args[:1]))
        if inner and module.callees(call) and not guarded(module, call):
            if not _shares(module, function):
                yield call


def _shares(module: Module, function: Function, depth: int = 2) -> bool:
    """Whether a function gives the ranks the same buffers."""
    if "buffers()" in source(function) or depth == 0:
        return "buffers()" in source(function)
    called = (c for call in module.calls_below(function) for c in module.callees(call))
    return any(_shares(other, inner, depth - 1) for other, inner in called)


@rule(
    "B4",
    "BatchNorm over one or two samples per rank: its statistics are noise",
    "use SyncBatchNorm or GroupNorm, or a larger micro-batch",
)
def tiny_batch(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(_BATCH_NORM) or program.says(_CONVERT):
        return
    for call in module.called("torch.utils.data.DataLoader"):
        if constant(keyword(call, "batch_size", 1)) in (1, 2):
            training = keyword(call, "sampler") or constant(keyword(call, "shuffle")) is True
            if training and not matches(module.statement(call), "val|test|eval"):
                yield call
