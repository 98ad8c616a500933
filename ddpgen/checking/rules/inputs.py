"""D3: batches of which nothing, or not all, gets to the device."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.batches import (
    Parts,
    given,
    is_loss,
    moved,
    moves,
    reaching_losses,
    stored_again,
    unpacked,
)
from ddpgen.checking.reading.expressions import (
    Function,
    keyword,
    last_part,
    matches,
    method_name,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, is_ddp, stands_for
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.gradients import is_inner

_MODEL = re.compile(r"(\w+\.)*(\w*_)?(model|net|network)\w*|(\w+\.)*(criterion|loss_fn|ema)\w*")
# Made here, or in the part of a program that a fragment leaves out.
_LOADER = r"\bDataLoader\(|\bfor .* in (enumerate\()?((data|train)_?)?loader\b"
# Whatever moves batches where the source does not show a call of `to`.
_UNSEEN = (
    r"prefetch|dali|ffcv|to_device|move_|_move|set_default_(device|tensor)|send_to|to_gpu|"
    r"batch_to|with torch\.device\(|\.to_\w*\(|on_device|pin_memory_device"
)


@rule(
    "D3",
    "one part of the batch is moved to the device and this one is not",
    "move inputs and targets at the same place",
)
def part_on_cpu(module: Module) -> Iterator[ast.AST]:
    yield from _fields_on_cpu(module)
    for parts in unpacked(module):
        left = parts.names - moved(module, parts.where) - stored_again(module, parts)
        if left and parts.names & moved(module, parts.where):
            losses = reaching_losses(module, parts)
            inputs = _reaching_models(module, parts)
            yield from (losses.get(name) or inputs[name] for name in left & {*losses, *inputs})


def _fields_on_cpu(module: Module) -> Iterator[ast.AST]:
    """`a = batch.a.to(device)` beside `b = batch.b`, or `batch["b"]`, which a loss gets."""
    for node, target in module.assignments(ast.expr):
        field = node.value if isinstance(node.value, ast.Attribute | ast.Subscript) else None
        batch = source(field.value) if field else ""
        if re.search(r"batch|sample", batch):
            calls = module.methods("to", "cuda", below=module.scope(node))
            moved = [source(receiver(call)) for call in calls]
            begins = f"{batch}." if isinstance(field, ast.Attribute) else f"{batch}['"
            if source(target) not in moved and any(m.startswith(begins) for m in moved):
                if isinstance(field, ast.Attribute) or _reaches_loss(module, node, target):
                    yield node.value


def _reaches_loss(module: Module, node: ast.Assign, target: ast.expr) -> bool:
    """Whether a loss gets a part of a batch that has a text for its name."""
    named = isinstance(node.value, ast.Subscript) and isinstance(node.value.slice, ast.Constant)
    losses = [c for c in module.calls_below(module.scope(node)) if is_loss(module, c)]
    return named and any(source(target) in given(call) for call in losses)


def _reaching_models(module: Module, parts: Parts) -> dict[str, ast.expr]:
    """The parts that a model gets which does not move its inputs itself, and each place."""
    found: dict[str, ast.expr] = {}
    for call in module.calls_below(parts.where):
        names = {name: value for name, value in given(call).items() if name in parts.names}
        if names and _is_bare(module, call.func):
            found = names | found
    return found


def _is_bare(module: Module, called: ast.expr) -> bool:
    """Whether a model may be called around DDP, or DDP does not know its device.

    DDP moves the inputs of its forward to the device that `device_ids` names.
    """
    if any(is_inner(m, v) for m, v in [(module, called), *stands_for(module, called)]):
        return True
    return is_ddp(module, called) and not _scatters(module)


def _scatters(module: Module) -> bool:
    wraps = [keyword(call, "device_ids", 1) for _, call in module.program.called(DDP)]
    return any(ids is not None and source(ids) not in ("None", "[]") for ids in wraps)


@rule(
    "D3",
    "the model is on a device, and nothing brings the batches there",
    "move inputs and targets: x, y = x.to(device), y.to(device)",
)
def batch_on_cpu(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(_LOADER) or program.says(_UNSEEN):
        return
    if not _model_moves(module) or any(map(_moves_data, program.modules)):
        return
    for parts in unpacked(module):
        function = module.function(parts.statement)
        if isinstance(parts.statement, ast.Assign) and not _is_batch(parts.statement):
            continue
        for call in module.calls_below(parts.where):
            names = given(call).keys() & parts.names - stored_again(module, parts)
            if not names or not is_ddp(module, call.func) or _makes_tensors(module, function):
                continue
            others = reaching_losses(module, parts).keys() - names
            if others or not _scatters(module):
                yield call


def _is_batch(unpacking: ast.Assign) -> bool:
    """Whether an assignment unpacks a batch: a parameter or what a loop takes, called so."""
    return isinstance(unpacking.value, ast.Name) and matches(unpacking.value, "batch|data|sample")


def _model_moves(module: Module) -> bool:
    """Whether the program brings its model to a device."""
    calls = [(m, call) for m in module.program.modules for call in moves(m, m.tree)]
    return any(not matches(call, r"\.to\('cpu'\)") for _, call in calls)


def _moves_data(module: Module) -> bool:
    """Whether anything but models and losses is moved, or made on a device, or may be."""
    found = [c for c in moves(module, module.tree) if not _is_module(module, receiver(c))]
    if not all(_of_optimizer(module, call) for call in found):
        return True
    handed = (n for n in module.nodes if isinstance(n, ast.Attribute) and n.attr in ("to", "cuda"))
    for node in handed:
        parent = module.parents[node]
        called = isinstance(parent, ast.Call) and parent.func is node
        if (
            not called
            and module.name(node) != "torch.cuda"
            and not isinstance(parent, ast.Attribute)
        ):
            return True
    return any(
        _makes_tensors(module, function)
        for name in ("__getitem__", "__getitems__", "__iter__", "collate", "collate_fn")
        for function in module.functions.get(name, [])
    )


def _of_optimizer(module: Module, call: ast.Call) -> bool:
    """Whether a loop over the state of an optimizer moves that."""
    loops = [above for above in module.above(call) if isinstance(above, ast.For)]
    return any(matches(loop.iter, r"optim|param|\bstate\.(items|values)") for loop in loops)


def _makes_tensors(module: Module, function: Function | None) -> bool:
    """Whether a function makes tensors on a device."""
    calls = module.calls_below(function) if function else []
    return any(keyword(call, "device") or method_name(call) == "new_tensor" for call in calls)


def _is_module(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a model or a loss, by its name or by what makes it."""
    if isinstance(node, ast.Call):
        name = last_part(module.name(node.func))
        return name[:1].isupper() or name.startswith(("build", "create", "convert", "resnet"))
    return _MODEL.fullmatch(source(node)) is not None
