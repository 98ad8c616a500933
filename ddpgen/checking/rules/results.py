"""O2: results of collectives that nobody waits for, or that overwrite each other."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, keyword, operands
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import follows
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.ranks import is_collective


@rule(
    "O2",
    "nobody waits for this reduction: what follows reads values that are not there yet",
    "keep what the call returns, and wait() before the values are read; or leave async_op out",
)
def never_awaited(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        dropped = isinstance(module.parents[call], ast.Expr)
        if dropped and constant(keyword(call, "async_op")) is True and is_collective(module, call):
            yield call


@rule(
    "O2",
    "a list of one tensor many times: each rank's values overwrite those of the rank before",
    "make a tensor for each rank: [torch.empty_like(x) for _ in range(world_size)]",
)
def one_tensor_for_all(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.all_gather", "torch.distributed.gather"):
        given = keyword(call, "tensor_list", 0) or keyword(call, "gather_list", 1)
        if given is not None and follows(module, given, _repeats_a_tensor):
            yield call


def _repeats_a_tensor(_: Module, node: ast.expr) -> bool | None:
    for side in operands(node, ast.Mult):
        if isinstance(side, ast.List) and len(side.elts) == 1:
            return not isinstance(side.elts[0], ast.Constant)
    return None if isinstance(node, ast.Name) else False
