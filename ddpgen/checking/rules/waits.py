"""O4: waits of the host for the device in every step."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import Function, matches, receiver
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import follows, mentions
from ddpgen.checking.reading.windows import is_update
from ddpgen.checking.registry import rule

_OF_STEP = r"(?<![a-z])(loss(es)?|norm|grad_norm)\b"


@rule(
    "O4",
    "the host waits for the device in every step",
    "add up on the device, and call .item() at log points only",
)
def waits_each_step(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("item", "tolist"):
        value = receiver(call)
        known = matches(value, r"loss|norm|acc|correct|grad")
        if not call.args and (known or mentions(module, value, _OF_STEP, 1)):
            if not matches(value, r"^\w*(ids?|shape|label)\b") and _each_step(module, call):
                yield call


@rule(
    "O4",
    "the host waits for the device in every step, and what comes next is not prepared meanwhile",
    "leave the call out: values that are read wait by themselves",
)
def synchronized_each_step(module: Module) -> Iterator[ast.AST]:
    waits = ("torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.distributed.barrier")
    for call in module.called(*waits):
        timed = matches(module.scope(call), r"perf_counter|time\(\)|Event\(|profil|elapsed")
        if _each_step(module, call) and not timed:
            yield call


def _each_step(module: Module, node: ast.AST) -> bool:
    """Whether a node belongs to every turn of a loop that goes backward, under no condition."""
    around = module.loop(node) or step_function(module, node)
    if around is None or not list(module.methods("backward", below=around)):
        return False
    if isinstance(around, ast.For | ast.While):
        updating = [c for c in module.methods("step", below=around) if is_update(c)]
        inner = [*module.methods("backward", below=around), *updating]
        if not any(module.loop(call) is around for call in inner):
            return False
    return _without_condition(module, node, around)


def _without_condition(module: Module, node: ast.AST, around: ast.AST) -> bool:
    """Whether a node is reached in every turn of a loop, or call of a function."""
    for above in module.above(node):
        if above is around:
            return True
        if isinstance(above, ast.Return) and not isinstance(around, Function):
            return False
        if isinstance(above, ast.If | ast.IfExp | ast.BoolOp | ast.ExceptHandler):
            return False
    return False


def step_function(module: Module, node: ast.AST) -> ast.AST | None:
    """A function of one step: it goes backward, and a loop calls it."""
    function = module.function(node)
    return function if function and _in_loop(module, function) else None


def _in_loop(module: Module, function: Function, depth: int = 2) -> bool:
    """Whether a loop calls a function, maybe through another one."""
    for other, use in uses(module, function):
        around = other.function(use)
        if other.loop(use) or (depth and around and _in_loop(other, around, depth - 1)):
            return True
    return False


@rule(
    "O4",
    "this condition is on the device, and the host waits for it in every step",
    "look at it at log points only",
)
def condition_each_step(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
            around = module.loop(node) or step_function(module, node)
            if around and follows(module, node.test.left, _is_norm):
                if _without_condition(module, node, around):
                    yield node.test


def _is_norm(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        return module.name(node.func).endswith("clip_grad_norm_")
    return None if isinstance(node, ast.Name | ast.Attribute) else False
