"""G1, G2: gradients that nobody averages over the ranks, or that ranks only add up."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    keyword,
    matches,
    method_name,
    operands,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import DDP, mentions
from ddpgen.checking.reading.windows import backwards, step_follows, updates
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.data import SAMPLER
from ddpgen.checking.rules.gradients import parameter_of_ddp

_WRAPS = (DDP, "FullyShardedDataParallel", "fully_shard", "DataParallel", "replicate")
# Other ways to bring gradients or weights together, or to share the model itself out.
_ELSEWHERE = (
    r"\.grad\b|(average|reduce|sync)\w*_(grad|param|model)|register_\w*hook|parallelize_module|"
    r"distributed\.(rpc|pipelining|tensor|autograd)|DTensor|\.tp\b|no_sync"
)
_SUMS = r"reduction=.sum|\.sum\(\)"
_WORLD = r"world|get_size|num_replicas|n_?(gpus|ranks|proc)"
_DIVIDES = (
    r"\.grad(\.data)? [*/]=|\.grad(\.data)?\.(true_)?(div|mul)_?\(|ReduceOp\.AVG|"
    r"_foreach_(div|mul)|"
    r"/ *\(?(\w+\.)*(\w*world\w*|(get_)?\w*size\(\)|n\w*(gpus|ranks|proc\w*))"
)


@rule(
    "G1",
    "nothing averages the gradients over the ranks: each rank trains a model of its own",
    "wrap the model: DistributedDataParallel(model, device_ids=[local_rank])",
)
def never_averaged(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.called(SAMPLER) or not program.calls("init_process_group"):
        return
    if program.calls(*_WRAPS) or program.says(_ELSEWHERE) or any(map(_mentions, program.modules)):
        return
    for call in module.methods("backward"):
        loop = module.loop(call)
        if not call.args and loop and any(updates(module, c, 1) for c in module.calls_below(loop)):
            yield call


def _mentions(module: Module) -> bool:
    """Whether a module names something that wraps a model, as in `partial(DDP, ...)`."""
    named = (node for node in module.nodes if isinstance(node, ast.Name | ast.Attribute))
    return any(module.name(node).endswith(_WRAPS) for node in named)


@rule(
    "G2",
    "the ranks' gradients are added up, and nothing divides them: the step grows with the world",
    "divide by the world size, or reduce with op=dist.ReduceOp.AVG",
)
def added_up(module: Module) -> Iterator[ast.AST]:
    if module.program.calls(*_WRAPS) or module.program.says(_DIVIDES):
        return
    for call in module.called("torch.distributed.all_reduce"):
        if matches(keyword(call, "tensor", 0), r"\.grad(\.data)?$") and module.loop(call):
            if not matches(call, r"\b(MAX|MIN|group)\b"):
                yield call


@rule(
    "G1",
    "no micro-batch of this loop reduces the gradients: each rank trains a model of its own",
    "leave the last micro-batch of each window out of no_sync()",
)
def always_without_sync(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        loop = module.loop(node) if isinstance(node, ast.With) else None
        if not isinstance(node, ast.With) or loop is None:
            continue
        calls = (i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call))
        quiet = "no_sync" in map(method_name, calls)
        chosen = [test for test, _ in conditions(module, node) if test in module.below(loop)]
        inside = {*backwards(module, node)}
        others = {*backwards(module, loop)} - inside
        steps = any(updates(module, call, 1) for call in module.calls_below(loop))
        if not steps and isinstance(loop, ast.For) and step_follows(module, loop):
            outer = module.loop(loop) or module.scope(loop)
            others = {*backwards(module, outer)} - inside
            steps = not module.program.says(r"all_reduce\([^\n]*grad")
        if quiet and inside and steps and not (chosen or others):
            yield node


@rule(
    "G2",
    "DDP has divided these gradients by the world size already: they are divided again",
    "leave the division to DDP",
)
def divided_again(module: Module) -> Iterator[ast.AST]:
    if module.program.says(
        r"(reduce|all_gather)\w*\(.*\.grad\b|no_sync|register_comm_hook|_hook\("
    ):
        return
    divided = [(c, receiver(c), c.args[0]) for c in module.methods("div_", "true_div_") if c.args]
    changed = [
        n for n in module.nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Div)
    ]
    for node, gradient, by in [*divided, *((n, n.target, n.value) for n in changed)]:
        if isinstance(of := _without_data(gradient), ast.Attribute) and of.attr == "grad":
            if parameter_of_ddp(module, of.value) and mentions(module, by, _WORLD):
                yield node


def _without_data(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node


@rule(
    "G2",
    "this loss is divided by the world size, and DDP divides again: the step shrinks",
    "go backward from this rank's loss, and divide a copy for what is shown",
)
def loss_divided_before(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.called(DDP) or program.says(r"reduction=.sum|register_comm_hook"):
        return
    for call in module.methods("backward"):
        if mentions(module, receiver(call), _SUMS, 4):
            continue
        for node in module.below(module.loop(call) or module.scope(call)):
            if not isinstance(node, ast.Assign | ast.AugAssign) or node.lineno > call.lineno:
                continue
            by = _divisor(node)
            if by is not None and matches(by, _WORLD) and not isinstance(by, ast.BinOp):
                target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
                if source(target) == source(receiver(call)):
                    yield node


def _divisor(node: ast.Assign | ast.AugAssign) -> ast.expr | None:
    """What a variable is divided by, and stays the same variable: `loss = loss / n`."""
    if isinstance(node, ast.AugAssign):
        return node.value if isinstance(node.op, ast.Div) else None
    total, count = operands(node.value, ast.Div) or (None, None)
    return count if total is not None and source(total) == source(node.targets[0]) else None
