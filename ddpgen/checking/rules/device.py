"""D4-D7: which GPU a rank uses."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import WITHOUT_DDP, conditions, without_ddp
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    method_name,
    source,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.nodes import is_global_rank, is_local_rank
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import DDP, binding, follows, stands_for
from ddpgen.checking.registry import STYLE, rule

_CHOOSES = r"set_device|environ\[.CUDA_VISIBLE_DEVICES.\] =|cuda\.device\("
_MOVES = ("to", "cuda")
_KINDS = rf"cuda|gpu|cpu|device|nccl|backend|{WITHOUT_DDP}"
# A choice of the CPU, which `is_available` makes.
ON_CPU = r"device\([\"']cpu[\"']\)|is_available\(\) else [\"']cpu[\"']"
_OBJECTS = tuple(
    f"torch.distributed.{name}"
    for name in ("all_gather_object", "broadcast_object_list", "gather_object")
)


@rule(
    "D4",
    "the device comes from the global rank, which has no GPU of its number on the second node",
    "use the local rank: int(os.environ['LOCAL_RANK'])",
)
def device_from_global_rank(module: Module) -> Iterator[ast.AST]:
    for node in _device_numbers(module):
        if is_global_rank(module, node):
            yield node


def _device_numbers(module: Module) -> Iterator[ast.expr]:
    """Expressions that choose a GPU by its number."""
    for call, name in module.calls:
        if name == "torch.cuda.set_device":
            yield from call.args[:1]
        kind = keyword(call, "type", 0)
        if name == "torch.device" and (constant(kind) == "cuda" or matches(kind, r"\.type$")):
            yield from call.args[1:2]
        if method_name(call) in _MOVES:
            yield from call.args[:1]
        yield from _listed_devices(call, name)
    for node in module.nodes:
        if isinstance(node, ast.JoinedStr) and str(constant(node.values[0]))[:5] == "cuda:":
            yield from (v.value for v in node.values if isinstance(v, ast.FormattedValue))


def _listed_devices(call: ast.Call, name: str) -> list[ast.expr]:
    """The devices in a list that DDP is given."""
    given = keyword(call, "device_ids", 1) if name.endswith(DDP) else None
    return given.elts if isinstance(given, ast.List) else []


@rule(
    "D4",
    "a fixed GPU: all ranks of a node share it",
    "use the local rank: torch.device('cuda', local_rank)",
)
def fixed_device(module: Module) -> Iterator[ast.AST]:
    if any(value for other in module.program.modules for value in _only_visible(other)):
        return
    found: dict[ast.expr, ast.Call] = {}  # each choice, and a call that uses it
    for call, name in module.calls:
        chooses = name in ("torch.device", "torch.cuda.set_device") or method_name(call) in _MOVES
        values = call.args[:1] if chooses else _listed_devices(call, name)
        for value in values:
            named = [v for m, v in stands_for(module, value) if m is module]
            choices = [choice for each in (value, *named) for choice in _choices(each)]
            number = name != "torch.device" and type(constant(value)) is int
            found |= {c: call for c in choices if number or constant(c) == "cuda:0"}
    for choice, call in found.items():
        if not guarded(module, call, WITHOUT_DDP) and not without_ddp(module, choice):
            yield choice


def _choices(value: ast.expr) -> list[ast.expr]:
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


@rule(
    "D5",
    "no rank says which GPU is its own, so all of them use GPU 0",
    "call torch.cuda.set_device(local_rank) before anything touches CUDA",
)
def no_device_chosen(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.says(_CHOOSES) or not program.called(DDP):
        return
    numbers = [(m, node) for m in program.modules for node in _device_numbers(m)]
    listed = {e for _, call in program.called(DDP) for e in _listed_devices(call, DDP)}
    if any(node not in listed and not _says_no_number(m, node) for m, node in numbers):
        return
    for call in module.methods("cuda", "to"):
        target = call.args[0] if call.args else None
        bare = target is None and matches(call.func, r"\.cuda$")
        if bare or (target is not None and follows(module, target, _is_cuda)):
            yield call
            return


def _says_no_number(module: Module, node: ast.expr) -> bool:
    """Whether a device, or what stands in its place, has no number."""
    return follows(module, node, _is_cuda) or matches(node, r"dtype|torch\.\w+\d*$|cpu")


def _is_cuda(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether a device is "the GPU", which is the current one, and that GPU 0."""
    if isinstance(node, ast.IfExp):
        return node.body
    if isinstance(node, ast.Call):
        one = len(node.args) == 1 and not node.keywords
        return node.args[0] if module.name(node.func) == "torch.device" and one else False
    return None if isinstance(node, ast.Name | ast.Attribute) else constant(node) == "cuda"


@rule(
    "D5",
    "NCCL takes the current device here, and that is GPU 0 on every rank",
    "call torch.cuda.set_device(local_rank) before init_process_group",
)
def current_device_unset(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if program.says(_CHOOSES) or not program.says("nccl"):
        return
    numbered = [n for m in module.program.modules for n in _device_numbers(m)]
    if any(not isinstance(number, ast.Constant | ast.Call) for number in numbered):
        barriers = () if program.says("device_id=") else ("torch.distributed.barrier",)
        for call in module.called(*barriers, *_OBJECTS):
            yield call
            return


@rule(
    "D5",
    "this program also runs on CPUs, and set_device raises there",
    "call it only where the device is a GPU",
)
def set_device_on_cpu(module: Module) -> Iterator[ast.AST]:
    groups = module.called("init_process_group")
    if any(constant(keyword(call, "backend", 0)) == "nccl" for call in groups):
        return  # which has raised on CPUs before
    if module.program.calls("is_available") and module.program.says(ON_CPU):
        for call in module.called("torch.cuda.set_device"):
            if not conditions(module, call) and not guarded(module, call, _KINDS):
                yield call


@rule(
    "D6",
    "this process has hidden all GPUs but its own, which is number 0 here: there is none of this",
    "use GPU 0, or let each process see all GPUs of its node",
)
def number_of_hidden_gpu(module: Module) -> Iterator[ast.AST]:
    hiding = [(m, value) for m in module.program.modules for value in _only_visible(m)]
    ranks = any(is_local_rank(m, value) for m, value in hiding)
    for number in _device_numbers(module) if hiding else ():
        tests = [number, *(test for test, _ in conditions(module, number))]
        if any(matches(test, r"device_count|environ") for test in tests):
            continue
        same = any(m is module and _same_value(m, value, number) for m, value in hiding)
        if same or (ranks and is_local_rank(module, number)):
            yield number


@once
def _only_visible(module: Module) -> list[ast.expr]:
    """The number of the one GPU that a process leaves itself, in every case."""
    found: list[ast.expr] = []
    for node, target in module.assignments(ast.Subscript):
        hides = constant(target.slice) == "CUDA_VISIBLE_DEVICES" and matches(
            target, r"^os\.environ"
        )
        value: ast.expr | None = None
        if isinstance(node.value, ast.Call) and source(node.value.func) == "str":
            value = node.value.args[0] if node.value.args else None
        elif isinstance(node.value, ast.JoinedStr) and len(node.value.values) == 1:
            only = node.value.values[0]
            value = only.value if isinstance(only, ast.FormattedValue) else None
        elif matches(node.value, r"^os\.(environ|getenv).*(LOCAL_RANK|LOCALID)"):
            value = node.value
        if hides and isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            if not conditions(module, node):
                found.append(value)
    return found


def _same_value(module: Module, hidden: ast.expr, number: ast.expr) -> bool:
    """Whether a name means the same at two places of a function, the second one being later."""
    same = source(hidden) == source(number) and module.scope(hidden) is module.scope(number)
    found = binding(module, number) if same else None
    return same and number.lineno > hidden.lineno and (not found or found.line < hidden.lineno)


@rule(
    "D7",
    "nn.DataParallel drives all GPUs from one process: slower, and at odds with DDP",
    "start one process per GPU and wrap the model in DistributedDataParallel",
)
def data_parallel(module: Module) -> Iterator[ast.AST]:
    yield from module.called("torch.nn.DataParallel", "torch.nn.parallel.DataParallel")


@rule(
    "D7",
    "nobody maintains this wrapper any more",
    "use torch's DistributedDataParallel; for sharded training its fully_shard",
    severity=STYLE,
)
def obsolete_wrapper(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if re.fullmatch(r"(apex|fairscale)\..*DataParallel", name):
            yield call
