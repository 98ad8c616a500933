"""Under which conditions a place in the source runs."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import Function, matches
from ddpgen.checking.reading.programs import Module, once

# Branches for runs without DDP.
WITHOUT_DDP = r"dist|ddp|world|rank|parallel|multi|gpus|launcher"
Outcome = tuple[ast.expr, bool]  # a test, and whether the test holds
# A check that raises keeps nobody away who is in order.
_LEAVES = (ast.Return, ast.Continue, ast.Break)


@once
def conditions(module: Module, node: ast.AST) -> tuple[Outcome, ...]:
    """What must hold where a node runs, up to its function: tests, and their outcomes."""
    return tuple(_conditions(module, node))


def _conditions(module: Module, node: ast.AST) -> Iterator[Outcome]:
    child = node
    for above in module.above(node):
        if (
            isinstance(above, ast.If | ast.IfExp | ast.While)
            and child is not above.test
            and not isinstance(above.test, ast.Constant)
        ):
            body = above.body if isinstance(above.body, list) else [above.body]
            yield above.test, child in body
        if isinstance(above, ast.BoolOp) and child in above.values:
            outcome = isinstance(above.op, ast.And)
            for value in above.values[: above.values.index(child)]:
                yield value, outcome
        for block in _blocks(above):
            if child in block:
                for earlier in block[: block.index(child)]:
                    if isinstance(earlier, ast.If) and isinstance(earlier.body[-1], _LEAVES):
                        yield earlier.test, False
        if isinstance(above, Function):
            return
        child = above


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def without_ddp(module: Module, node: ast.AST) -> bool:
    """Whether a condition lets a node run only where there is no DDP: `if world_size == 1`."""
    for test, outcome in conditions(module, node):
        one = matches(test, r"^not |== ?-?1$|<= ?1$|< ?2$|is None$")
        of_a_rank = matches(test, r"rank\w*(\(\))? (==|!=|>) 0$")  # one rank of several
        if matches(test, WITHOUT_DDP) and outcome == one and not of_a_rank:
            return True
    return False


def parts(test: ast.expr, outcome: bool) -> Iterator[Outcome]:
    """The conditions that must all hold where a test has this outcome."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from parts(test.operand, not outcome)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == outcome:
        for value in test.values:
            yield from parts(value, outcome)
    else:
        yield test, outcome


def alternatives(test: ast.expr) -> list[ast.expr]:
    """The conditions of which one is enough."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return [part for value in test.values for part in alternatives(value)]
    return [test]
