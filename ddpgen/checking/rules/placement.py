"""D1-D3: what is on the device, and when it gets there."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    method_name,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, binding, follows, is_ddp
from ddpgen.checking.registry import rule

_MOVES = ("to", "cuda", "cpu", "xpu", "npu")


@rule(
    "D1",
    "DDP keeps references to the parameters that it saw: moved after the wrap they are others",
    "move the model to its device first, then wrap it",
)
def moved_after_wrap(module: Module) -> Iterator[ast.AST]:
    for call in module.methods(*_MOVES):
        if is_ddp(module, receiver(call)) and not matches(call, r"non_blocking|dtype="):
            if not _was_there(module, call):
                yield call


def _was_there(module: Module, call: ast.Call) -> bool:
    """Whether the model was moved in the same way before the wrap, so that nothing moves now."""
    wrap = receiver(call)
    if isinstance(wrap, ast.Name) and (found := binding(module, wrap)):
        wrap = found.value
    model = keyword(wrap, "module", 0) if isinstance(wrap, ast.Call) else None
    if model is None:
        return False
    for move in module.methods(method_name(call), below=module.scope(call)):
        if list(map(source, move.args)) == list(map(source, call.args)):
            statement = module.statement(move)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            moved = map(source, [receiver(move), *targets])
            if move is model or (move.lineno < model.lineno and source(model) in moved):
                return True
    return False


@rule(
    "D1",
    "the model is still on the CPU when DDP wraps it for a GPU",
    "call model.to(device) before the wrap",
)
def wrapped_on_cpu(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"set_default_device|torch\.device\([^)]*\):"):
        return
    groups = module.program.called("init_process_group")
    with_nccl = any(constant(keyword(group, "backend", 0)) == "nccl" for _, group in groups)
    for call in module.called(DDP):
        ids, model = keyword(call, "device_ids", 1), keyword(call, "module", 0)
        given = with_nccl if ids is None else source(ids) != "None"
        if given and model is not None and follows(module, model, _on_cpu):
            yield call


def _on_cpu(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether a model was just made, and nothing moves it."""
    if isinstance(node, ast.Name | ast.Attribute):
        return False if _moved(module, node) else None
    if isinstance(node, ast.Call):
        if matches(node.func, r"convert_sync_batchnorm$") and node.args:
            return node.args[0]
        if _is_constructor(module, node):
            return True
        return None if module.callees(node) else False
    return False


def _moved(module: Module, name: ast.Name | ast.Attribute) -> bool:
    own = module.owner(name) if source(name).startswith("self.") else None
    moves = module.methods(*_MOVES, below=own or module.scope(name))
    return any(source(receiver(call)) == source(name) for call in moves)


def _is_constructor(module: Module, call: ast.Call) -> bool:
    """A class of the program that moves nothing itself, or one of torch's own models."""
    name = module.name(call.func)
    if keyword(call, "device"):
        return False
    if name.startswith(("torch.nn.", "torchvision.models.")):
        return not name.startswith(("torch.nn.parallel", "torch.nn.SyncBatchNorm"))
    last = last_part(name)
    classes = [
        (m, n)
        for m in module.program.modules
        for n in m.nodes
        if isinstance(n, ast.ClassDef) and n.name == last
    ]
    return bool(classes) and not any(list(m.methods(*_MOVES, below=n)) for m, n in classes)


@rule(
    "D2",
    "only a part of the model is moved, so that DDP meets tensors on two devices",
    "move the whole model: model.to(device)",
)
def moved_in_part(module: Module) -> Iterator[ast.AST]:
    for wrap in module.called(DDP):
        model = keyword(wrap, "module", 0)
        if not isinstance(model, ast.Name) or _moved(module, model):
            continue
        if not binding(module, model) and not follows(module, model, _on_cpu):
            continue
        for call in module.methods("to", "cuda", below=module.scope(wrap)):
            if source(receiver(call)).startswith(f"{model.id}."):
                yield call


@rule(
    "D3",
    "the weights of this loss stay on the CPU, where the outputs are not",
    "move the loss module, or its weights, to the device",
)
def loss_weights_on_cpu(module: Module) -> Iterator[ast.AST]:
    for call in module.called("CrossEntropyLoss", "NLLLoss", "BCEWithLogitsLoss", "BCELoss"):
        weight = keyword(call, "weight", 0) or keyword(call, "pos_weight")
        if weight is None or not follows(module, weight, _cpu_tensor):
            continue
        parent = module.parents[call]
        targets = parent.targets if isinstance(parent, ast.Assign) else []
        if isinstance(parent, ast.Attribute) and parent.attr in _MOVES:
            continue
        names = {source(target) for target in targets}
        moved = any(source(receiver(move)) in names for move in module.methods(*_MOVES))
        if not moved and not _moves_with_another(module, call, names):
            yield call


def _moves_with_another(module: Module, call: ast.Call, names: set[str]) -> bool:
    """Whether a module is, or may be, a part of another one, which is moved as a whole."""
    owner = module.owner(call)
    if owner and any(name.startswith("self.") for name in names):
        return any(matches(base, "Module") for base in owner.bases)
    holders = (c for c, name in module.calls if re.match("_?[A-Z]", last_part(name)))
    given = {source(a) for c in holders for a in (*c.args, *(k.value for k in c.keywords))}
    return bool(given & {*names, source(call)})


def _cpu_tensor(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        if method_name(node) in (*_MOVES, "type_as", "new_tensor"):
            return False
        makers = "(tensor|ones|zeros|full|as_tensor|from_numpy|FloatTensor|Tensor)"
        if re.fullmatch(rf"torch\.{makers}", module.name(node.func)):
            return keyword(node, "device") is None
    return None if isinstance(node, ast.Name) else False
