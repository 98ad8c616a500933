"""O8: evaluating in training mode, and training in evaluation mode."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import Function, matches, receiver, source
from ddpgen.checking.reading.guards import without_gradients
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.roles import MODEL, is_network
from ddpgen.checking.reading.values import is_ddp
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.output import in_training

# Layers that do something else in training.
_DEPENDS = (
    r"[Dd]ropout|BatchNorm|batch_norm|models\.\w+\(|from_pretrained|create_model|"
    r"\bTransformer(En|De)coderLayer\(|\bTransformer\("  # which drop out a tenth by default
)
_VALUE = r"\w*(training|train|mode|flag)\w*"
_EVALUATES = rf"\.eval\(|\beval\(\)|\.train\((mode=)?(False|{_VALUE})\)|\.training\b"
_TRAINS = rf"\.train\((mode=)?(True|{_VALUE})?\)|\.training\b"
_NEEDS_GRADIENTS = r"set_grad_enabled|autograd\.grad|enable_grad|requires_grad_\(True|attack"
_LOADER = r"load|val|test|eval|data|batch"


@rule(
    "O8",
    "nothing here switches to evaluation: dropout and BatchNorm do what they do in training",
    "call model.eval() before, on all ranks, and model.train() behind",
)
def evaluates_in_training_mode(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(_DEPENDS):
        return
    for call, _ in module.calls:
        loop = module.loop(call)
        if isinstance(loop, ast.For) and matches(loop.iter, _LOADER):
            if _runs_model(module, call) and without_gradients(module, call):
                if not _switched(module, call, _EVALUATES):
                    yield call


@rule(
    "O8",
    "evaluated with gradients: each batch keeps what a backward would need, as much as in training",
    "put the evaluation under torch.no_grad(): model.eval() does not switch gradients off",
    severity=WARNING,
)
def evaluates_with_gradients(module: Module) -> Iterator[ast.AST]:
    if module.program.says(_NEEDS_GRADIENTS):
        return
    for switch in module.methods("eval"):
        scope = module.scope(switch)
        for call in module.calls_below(scope) if _is_model(module, receiver(switch)) else ():
            loop = module.loop(call) if _is_model(module, call.func) else None
            if isinstance(loop, ast.For) and matches(loop.iter, _LOADER):
                inside = module.calls_below(loop)
                trains = any(goes_backward(module, inner) for inner in inside)
                if loop.lineno > switch.lineno and not (trains or _gradients_off(module, call)):
                    yield call


def _gradients_off(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether a place, or one that calls its function, computes no gradients."""
    function = module.function(node)
    callers = uses(module, function) if function and depth else ()
    return without_gradients(module, node) or any(
        _gradients_off(other, use, depth - 1) for other, use in callers
    )


@rule(
    "O8",
    "nothing here switches back: from the first evaluation on, training has no dropout",
    "call model.train() behind the evaluation",
)
def trains_in_evaluation_mode(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(_DEPENDS):
        return
    found = [call for call in module.methods("eval") if is_network(module, receiver(call))]
    if any(_on_purpose(module, call) for call in found):
        return
    for call in found:
        if in_training(module, call) and not _switches_back(module, call):
            yield call


@once
def _switches_back(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether training follows an evaluation: in its function, or in a loop that comes again."""
    loops = []
    for above in module.above(node):
        if isinstance(above, Function):
            break
        loops += [above] if isinstance(above, ast.For | ast.While) else []
    scope = loops[-1] if loops and depth < 3 else module.scope(node)
    if _is_set_in(module, scope, _TRAINS):
        return True
    function = module.function(node)
    if function is None or depth == 0:
        return False
    found = list(uses(module, function))
    if not found:  # who calls it is not here to be seen
        return module.program.says(_TRAINS)
    found = [(m, use) for m, use in found if m.function(use) or m.loop(use)]
    return any(_switches_back(other, use, depth - 1) for other, use in found)


def _on_purpose(module: Module, call: ast.Call) -> bool:
    """Whether training follows: a head is trained on features that do not vary."""
    if _switched(module, call, _TRAINS, 0):
        return False
    after = (c for c in module.calls_below(module.scope(call)) if c.lineno > call.lineno)
    return any(goes_backward(module, inner) for inner in after)


def _is_model(module: Module, node: ast.expr) -> bool:
    """Whether a network is meant that is trained: other ones may have no gradients at all."""
    return is_ddp(module, node) or matches(node, MODEL)


def _runs_model(module: Module, call: ast.Call) -> bool:
    """Whether a call is one of the model, or of a function of the program that gets the model."""
    if is_network(module, call.func):
        return True
    given = any(is_network(module, argument) for argument in call.args[:1])
    return given and bool(module.callees(call))


@once
def _switched(module: Module, node: ast.AST, pattern: str, depth: int = 3) -> bool:
    """Whether the function around a node, what it calls, or who calls it switches the mode."""
    scope = module.scope(node)
    if _is_set_in(module, scope, pattern):
        return True
    function = module.function(node)
    if function is None or depth == 0:
        return False
    found = list(uses(module, function))
    if not found:  # who calls it is not here to be seen
        return module.program.says(pattern)
    return any(_switched(other, use, pattern, depth - 1) for other, use in found)


def _is_set_in(module: Module, scope: ast.AST, pattern: str) -> bool:
    """Whether a part of a program sets the mode, or calls a function that ends with that mode."""
    called = (f for call in module.calls_below(scope) for _, f in module.callees(call))
    return matches(scope, pattern) or any(_ends_with(inner, pattern) for inner in called)


def _ends_with(function: Function, pattern: str) -> bool:
    """Whether a function leaves the mode switched, rather than switching back."""
    last = [m[0] for m in re.finditer(rf"{_EVALUATES}|{_TRAINS}", source(function))]
    return bool(last) and re.fullmatch(pattern, last[-1]) is not None
