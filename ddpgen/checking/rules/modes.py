"""O8: evaluating in training mode, and training in evaluation mode."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import matches, receiver
from ddpgen.checking.reading.guards import contexts
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import is_ddp
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.output import in_training

# Layers that do something else in training.
_DEPENDS = r"[Dd]ropout|BatchNorm|batch_norm|models\.\w+\(|from_pretrained|create_model"
# What may switch the mode: with a value `train` does, too.
_EVALUATES = r"\.eval\(|\beval\(\)|\.train\(\s*[^)\s]|\.training\b"
_TRAINS = r"\.train\(|\.training\b"
_NO_GRADIENTS = r"\b(no_grad|inference_mode)\b"
_LOADER = r"load|val|test|eval|data|batch"
_MODEL = r"^(\w+\.)*(ddp_)?(model|net|network)(\.module)?$"


@rule(
    "O8",
    "nothing here switches to evaluation: dropout and BatchNorm do what they do in training",
    "call model.eval() before, on all ranks, and model.train() behind",
)
def evaluates_in_training_mode(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(_DEPENDS) or program.says(_EVALUATES):
        return
    for call, _ in module.calls:
        loop = module.loop(call)
        if isinstance(loop, ast.For) and matches(loop.iter, _LOADER):
            if _is_model(module, call.func) and _without_gradients(module, call):
                yield call


@rule(
    "O8",
    "nothing here switches back: from the first evaluation on, training has no dropout",
    "call model.train() behind the evaluation",
)
def trains_in_evaluation_mode(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(_DEPENDS) or module.program.says(_TRAINS):
        return
    found = [call for call in module.methods("eval") if _is_model(module, receiver(call))]
    if not any(_on_purpose(module, call) for call in found):
        yield from (call for call in found if in_training(module, call))


def _on_purpose(module: Module, call: ast.Call) -> bool:
    """Whether training follows: a head is trained on features that do not vary."""
    after = (c for c in module.calls_below(module.scope(call)) if c.lineno > call.lineno)
    return any(goes_backward(module, inner) for inner in after)


def _is_model(module: Module, node: ast.expr) -> bool:
    return is_ddp(module, node) or matches(node, _MODEL)


def _without_gradients(module: Module, node: ast.AST) -> bool:
    function = module.function(node)
    around = [*contexts(module, node), *(function.decorator_list if function else [])]
    return any(matches(context, _NO_GRADIENTS) for context in around)
