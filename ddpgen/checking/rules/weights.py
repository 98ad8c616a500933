"""F1, G9, O2: weights that the optimizer does not know or change, too coarse, or rank 0's alone."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import matches, receiver, source
from ddpgen.checking.reading.guards import NO_GRADIENTS, zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, follows
from ddpgen.checking.registry import ERROR, rule
from ddpgen.checking.rules.precision import scalers

# Copies in float32, which the optimizer updates.
_MASTERS = r"master|FP16_Optimizer|fp16_optimizer|apex|fp32_(params|copy)"


@rule(
    "F1",
    "the optimizer was made before this layer, and never updates its weights",
    "make the optimizer when the model is whole",
)
def layer_after_optimizer(module: Module) -> Iterator[ast.AST]:
    made = [(call, source(call.args[0])) for call, name in module.calls if _trains(call, name)]
    for node, target in module.assignments(ast.Attribute):
        whole = re.fullmatch(r"(\w+)\.(module\.)?\w+", source(target))
        if whole is None or not _is_layer(module, node.value):
            continue
        for call, weights in made:
            same = module.scope(call) is module.scope(node) and call.lineno < node.lineno
            again = any(c.lineno > node.lineno for c, text in made if text == weights)
            if same and weights == f"{whole[1]}.parameters()" and not again:
                yield node


def _trains(call: ast.Call, name: str) -> bool:
    return re.match(r"torch\.optim\.[A-Z]\w+$", name) is not None and bool(call.args)


def _is_layer(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and module.name(node.func).startswith("torch.nn.")


@rule(
    "G9",
    "weights in float16: small updates are lost, and a loss scaler refuses their gradients",
    "keep the weights in float32, and compute under torch.autocast",
)
def float16_weights(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_MASTERS) or not module.program.calls("backward"):
        return
    for call in module.called(DDP):
        if call.args and follows(module, call.args[0], _is_float16):
            yield call


def _is_float16(_: Module, node: ast.expr) -> bool | ast.expr | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "half":
        return True
    if node.func.attr == "to" and any(matches(a, r"^torch\.(float16|half)$") for a in node.args):
        return True
    return receiver(node) if node.func.attr in ("to", "cuda", "train") else None


@rule(
    "O2",
    "this average of the weights grows on rank 0 alone: the others measure what they began with",
    "update the average on every rank: the weights are equal, so that the averages are",
)
def average_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("update", "update_parameters"):
        average = source(receiver(call))
        if not re.search(r"ema|swa|averag", average) or zero_guard(module, call) is None:
            continue
        if not module.program.says(r"broadcast\w*\([^)]*(ema|swa|averag)"):
            if any(_used_by_all(module, c, average) for c, _ in module.calls if c is not call):
                yield call


def _used_by_all(module: Module, call: ast.Call, average: str) -> bool:
    """Whether all ranks evaluate an average of weights, or compute with it."""
    given = [call.func, *call.args]
    named = re.compile(rf"{re.escape(average)}(\.(module|model|ema\w*|shadow))?")
    uses = any(named.fullmatch(source(node)) for node in given)
    decorators = [d for _, f in module.callees(call) for d in f.decorator_list]
    evaluates = matches(call.func, r"eval|valid|test") or named.fullmatch(source(call.func))
    silent = any(matches(d, NO_GRADIENTS) for d in decorators)
    return uses and (bool(evaluates) or silent) and zero_guard(module, call) is None


@rule(
    "G9",
    "the scaler never makes the step: infinite gradients reach the weights, or scaled ones do",
    "call scaler.step(optimizer) in place of optimizer.step()",
    severity=ERROR,
)
def step_without_scaler(module: Module) -> Iterator[ast.AST]:
    program = module.program
    steps = [call for _, call in program.names.get("step", [])]
    by_scaler = any(matches(call, r"scaler") for call in steps)
    if by_scaler or program.says("NativeScaler|loss_scaler") or not any(scalers(module)):
        return
    for call in module.methods("step"):
        if matches(receiver(call), r"opt(im(izer)?)?$"):
            yield call
