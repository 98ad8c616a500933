"""F6, F8, G14, K16, O3: what weights that are shared out need of all ranks."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    source,
    stored_in,
)
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions, results, stands_for
from ddpgen.checking.reading.windows import backwards
from ddpgen.checking.registry import ERROR, rule
from ddpgen.checking.rules.quiet import is_last, is_never, parts_of
from ddpgen.checking.rules.sharding import READ, begins_anew

_SHARDS = "fully_shard"
_SYNCS = "set_requires_gradient_sync"
# What gives memory its values.
_FILLS = (
    r"init|reset_parameters|(?<!data)load(?!er)|from_pretrained|normal_|uniform_|fill_|ones_|"
    r"zero_(?!grad)|set_state_dict|set_model_state_dict|broadcast"
)


@rule(
    "F6",
    "no micro-batch sums the gradients over the ranks: each of them trains a model of its own",
    "model.set_requires_gradient_sync(True) before the last micro-batch",
    severity=ERROR,
)
def never_summed(module: Module) -> Iterator[ast.AST]:
    calls = [call for m in module.program.modules for call in m.methods(_SYNCS)]
    if all(call.args and constant(call.args[0]) is False for call in calls):
        yield from module.methods(_SYNCS)
        return
    for call in module.methods(_SYNCS):
        loop = module.loop(call)
        if loop is not None and call.args and any(backwards(module, loop)):
            if any(is_never(*part, loop) for part in parts_of(module, call.args[0], True)):
                yield call


@rule(
    "F6",
    "the last micro-batch alone is not summed over the ranks: its gradients stay with each rank",
    "set_requires_gradient_sync(number == last)",
    severity=ERROR,
)
def last_one_not_summed(module: Module) -> Iterator[ast.AST]:
    for call in module.methods(_SYNCS):
        loop = module.loop(call)
        if isinstance(loop, ast.For) and call.args and any(backwards(module, loop)):
            parts = parts_of(module, call.args[0], False)
            if any(is_last(test, outcome, stored_in(loop.target)) for test, outcome in parts):
                yield call


@rule(
    "F8",
    "nothing fills this memory: the weights are whatever was there, other numbers on each rank",
    "initialise or load the weights after to_empty()",
    severity=ERROR,
)
def memory_as_it_was(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("to_empty"):
        after = [c for c in module.calls_below(module.scope(call)) if c.lineno > call.lineno]
        after = [c for c in after if not (matches(c.func, "load") and conditions(module, c))]
        inside = (f for c in after for _, f in module.callees(c))
        read = module.program.says(READ) and not begins_anew(module)
        if not read and not any(matches(c.func, _FILLS) for c in after):
            if not any(matches(function, _FILLS) for function in inside):
                yield call


@rule(
    "G14",
    "weights are tied after they were shared out: the optimizer and the files have two tensors",
    "tie them before fully_shard()",
)
def tied_after_sharding(module: Module) -> Iterator[ast.AST]:
    for node, target in module.assignments(ast.Attribute):
        if target.attr == "weight" and matches(node.value, r"\.weight$"):
            scope, first = module.scope(node), source(target).partition(".")[0]
            shards = (c for c in module.called(_SHARDS) if module.scope(c) is scope)
            if any(
                s.args and s.lineno < node.lineno and source(s.args[0]) == first for s in shards
            ):
                yield node


@rule(
    "K16",
    "nobody waits for this save or hears of its failure: the process may end before its file",
    "keep what async_save() gives back, and wait for its result() before the next one and the end",
)
def save_without_a_wait(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.checkpoint.async_save", "dcp.async_save"):
        around = module.parents[call]
        name = around.targets[0] if isinstance(around, ast.Assign) else None
        unread = isinstance(name, ast.Name) and not module.reads(name.id, module.scope(call))
        if unread or isinstance(around, ast.Expr):
            yield call


@rule(
    "K16",
    "each rank has a folder of its own here, and no folder has the shares of all",
    "give all ranks one folder: each of them writes a file of its own there",
)
def folder_of_each_rank(module: Module) -> Iterator[ast.AST]:
    for call in module.called(
        *(f"torch.distributed.checkpoint.{n}" for n in ("save", "async_save"))
    ):
        folder = keyword(call, "checkpoint_id")
        if folder is not None and mentions(module, folder, r"(?<!world_)rank", 2):
            yield call


@rule(
    "O3",
    "the forward gathers weights of all ranks, and only rank 0 comes here: it hangs",
    "call the model on all ranks, and let rank 0 print",
    severity=ERROR,
)
def forward_of_rank_0(module: Module) -> Iterator[ast.AST]:
    if module.program.calls(_SHARDS):
        for call, _ in module.calls:
            if zero_guard(module, call) is not None and _is_shared_out(module, call.func):
                yield call


def _is_shared_out(module: Module, node: ast.expr, depth: int = 4) -> bool:
    """Whether an expression is a model that fully_shard() got, by its name or from a function."""
    if isinstance(node, ast.Call):
        if last_part(module.name(node.func)) == _SHARDS:
            return True
        found = list(results(module, node))
    elif isinstance(node, ast.Name | ast.Attribute):
        shards = [c for c in module.called(_SHARDS) if module.scope(c) is module.scope(node)]
        if any(c.args and source(c.args[0]) == source(node) for c in shards):
            return True
        found = list(stands_for(module, node))
    else:
        return False
    return any(_is_shared_out(m, value, depth - 1) for m, value in found if depth)
