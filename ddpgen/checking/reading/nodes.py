"""A rank's number on its node, and places that one rank of every node reaches."""

import ast
import re

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.conditions import conditions, parts
from ddpgen.checking.reading.expressions import constant, matches, operands, source
from ddpgen.checking.reading.given import parameter
from ddpgen.checking.reading.guards import SOME_RANK
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import bindings, follows, stands_for

_LOCAL = re.compile(
    r"[\w.]*(environ(\.get\(|\[)|getenv\()'(LOCAL_RANK|SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK)'.*|"
    r"[\w.]*get_node_local_rank\(\)"
)
_NAMED_LOCAL = re.compile(r"(\w+\.)*_?local_?rank(_id)?", re.IGNORECASE)
_LOCAL_MAIN = re.compile(r"[\w.]*is_local_(main|master)\w*(\(\))?", re.IGNORECASE)
_OF_A_NODE = r"local|per_node|device_count|n?gpus\b"
_TIMES_NODES = r"\w*(nodes|machines) \*|\* [\w.]*(nodes|machines)\b"
_ONE_NODE = r"MASTER_ADDR\W{1,8}(localhost|127\.)|tcp://(localhost|127\.)|file://"


def is_local_rank(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the rank's number on its node, and nothing computed from that."""
    return follows(module, node, _is_local)


def _is_local(module: Module, node: ast.expr) -> bool | ast.expr | None:
    if _LOCAL.fullmatch(source(node)):
        return True
    if isinstance(node, ast.Call):
        plain = source(node.func) in ("int", "str") and len(node.args) == 1
        return node.args[0] if plain else None
    if divisor := operands(node, ast.Mod)[1:]:
        return matches(divisor[0], _OF_A_NODE)
    if isinstance(node, ast.JoinedStr):
        only = node.values[0] if len(node.values) == 1 else None
        return only.value if isinstance(only, ast.FormattedValue) else False
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    set_to = bindings(module).get((module.scope(node), source(node)), [])
    if len([b for b in set_to if not isinstance(b.value, ast.Constant)]) > 1:
        return False  # which of them holds is a matter of conditions
    if any(stands_for(module, node)):
        return None
    if module.program.starts_ranks and parameter(module, node) is not None:
        # Ranks of one node have numbers that are both: not so where `rank = node * 8 + number`.
        return module.program.says(rf"rank\w* ?= ?[^\n#]*\*[^\n#]*\+ ?{re.escape(source(node))}\b")
    return _NAMED_LOCAL.fullmatch(source(node)) is not None


def on_one_node(module: Module) -> bool:
    """Whether a program says that all its ranks are on one node."""
    return module.program.says(_ONE_NODE)


def of_a_node(node: ast.expr | None) -> bool:
    """Whether a number is that of a node's ranks, not that of all: nodes * gpus_per_node."""
    return matches(node, _OF_A_NODE) and not matches(node, _TIMES_NODES)


def local_zero_guard(module: Module, node: ast.AST, depth: int = 2) -> bool:
    """Whether the first rank of every node reaches a place, and no other condition on ranks.

    Where a function asks nothing about ranks, all who call it have to.
    """
    tests = [part for outcome in conditions(module, node) for part in parts(*outcome)]
    local = [part for part in tests if _is_local_zero(module, *part)]
    if any(re.search(SOME_RANK, source(t)) for t, o in tests if (t, o) not in local):
        return False
    function = module.function(node)
    if local or function is None or depth == 0:
        return bool(local)
    found = list(uses(module, function))
    return bool(found) and all(local_zero_guard(m, use, depth - 1) for m, use in found)


def _is_local_zero(module: Module, test: ast.expr, outcome: bool, depth: int = 2) -> bool:
    """Whether a condition holds on the first rank of every node alone."""
    if isinstance(test, ast.Compare):
        zero = constant(test.comparators[0]) == 0 and len(test.ops) == 1
        kinds = ast.Eq if outcome else ast.NotEq | ast.Gt
        return zero and isinstance(test.ops[0], kinds) and is_local_rank(module, test.left)
    if outcome and _LOCAL_MAIN.fullmatch(source(test)):
        return True
    if not outcome and is_local_rank(module, test):
        return True
    found = stands_for(module, test) if depth else ()
    computed = [(m, value) for m, value in found if not isinstance(value, ast.Constant)]
    required = [(m, part) for m, value in computed for part in parts(value, outcome)]
    return bool(required) and all(_is_local_zero(m, *part, depth - 1) for m, part in required)
