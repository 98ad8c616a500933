"""A rank's number on its node, and places that one rank of every node reaches."""

import ast
import re

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.conditions import conditions, parts
from ddpgen.checking.reading.expressions import constant, matches, operands, source, strings
from ddpgen.checking.reading.given import parameter
from ddpgen.checking.reading.guards import SOME_RANK
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, bindings, follows, stands_for

_LOCAL = re.compile(
    r"[\w.]*(environ(\.get\(|\[)|getenv\()'(LOCAL_RANK|SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK)'.*|"
    r"[\w.]*get_node_local_rank\(\)"
)
_NAMED_LOCAL = re.compile(r"(\w+\.)*_?local_?rank(_id)?|(\w+\.)+local(_id)?", re.IGNORECASE)
_GLOBAL_RANK = re.compile(
    r"[\w.]*get_rank\(\)|int\([\w.]*environ(\.get\(|\[)'(RANK|SLURM_PROCID)'.*\)|int\([\w.]*getenv\('RANK'.*\)|int\(RANK\)"
)
_LOCAL_FIELDS = ("local_rank", "local", "local_id")
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


def is_global_rank(module: Module, node: ast.expr) -> bool:
    """Whether an expression is the rank's number in the world."""
    return follows(module, node, _is_global_rank)


def _is_global_rank(module: Module, node: ast.expr) -> bool | None:
    if _GLOBAL_RANK.fullmatch(source(node)):
        return True
    if isinstance(node, ast.Name) and (found := binding(module, node)):
        # rank, local_rank = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK"))
        value = found.value
        if isinstance(value, ast.Name) and (earlier := binding(module, value)):
            value = earlier.value
        several = isinstance(value, ast.GeneratorExp | ast.ListComp)
        if several and isinstance(found.statement, ast.Assign):
            return _variable(found.statement, value, node.id) == "RANK"
    if isinstance(node, ast.Attribute) and node.attr in ("rank", "global_rank"):
        # A field beside that of the local rank: `place.rank`, `place.local_rank`.
        fields = module.program.fields
        if node.attr in fields and any(name in fields for name in _LOCAL_FIELDS):
            return True
    return None if isinstance(node, ast.Name | ast.Attribute) else False


def _variable(statement: ast.Assign, value: ast.expr, name: str) -> object:
    """The variable of the environment that one of several names gets."""
    targets = [name.id for name in ast.walk(statement.targets[0]) if isinstance(name, ast.Name)]
    variables = list(strings(value))
    if matches(value, "environ|getenv") and len(targets) == len(variables) and name in targets:
        return variables[targets.index(name)]
    return None


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
