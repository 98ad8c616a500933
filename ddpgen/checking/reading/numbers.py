"""What numbers of ranks and nodes come to, computed for each rank of a job on several nodes."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    last_part,
    parameters,
    source,
)
from ddpgen.checking.reading.given import parameter
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import bindings, stands_for

_COUNT = "(n|num|number_of|total)?_*"
_NODE = re.compile(r"(slurm_)?(node|machine|host|group)_?(rank|id|idx|index)|nr")
_NODES = re.compile(rf"(slurm_)?(job_)?{_COUNT}(nnodes|nodes|machines|hosts)")
_GPUS = re.compile(
    rf"{_COUNT}(gpus?|procs?|processes|devices|nproc)_?(per|on)_?(node|machine|host)|"
    r"local_?(world_?)?size|slurm_gpus_on_node"
)
_EITHER = re.compile(rf"{_COUNT}(gpus|n?procs|devices)|gpu_count|device_count")
OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda left, right: left // (right or 1),
    ast.Mod: lambda left, right: left % (right or 1),
}


class Rank(NamedTuple):
    """One process of a job, as the program counts.

    Attributes:
        node: the number of its node.
        number: its number on the node.
        nodes: how many nodes the job has.
        gpus: how many GPUs a node has.
        in_all: names such as `gpus` count those of all nodes.
    """

    node: int
    number: int
    nodes: int = 3
    gpus: int = 4
    in_all: bool = False


class Start(NamedTuple):
    """`spawn(worker, args=..., nprocs=...)`: where that is, and what each rank runs."""

    module: Module
    call: ast.Call
    worker: Function


@once
def starts(module: Module) -> list[Start]:
    """The calls of a program by which a node starts its ranks."""
    found = []
    for other, call in module.program.called("spawn", "start_processes"):
        main = keyword(call, "fn", 0)
        named = module.program.functions.get(last_part(source(main)), []) if main else []
        for home, function in named:
            if main and parameters(function) and module.program.means(other, main, home, function):
                found.append(Start(other, call, function))
    return found


def value(module: Module, node: ast.AST | None, rank: Rank, depth: int = 8) -> int | None:
    """The number that an expression is on a rank; None where the text does not tell."""
    known = constant(node)
    if node is None or depth == 0 or isinstance(known, int):
        return known if isinstance(known, int) else None
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        left, right = (value(module, n, rank, depth - 1) for n in (node.left, node.right))
        if left is None or right is None:
            return None
        return OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        return _called(module, node, rank, depth)
    if isinstance(node, ast.Subscript):
        return _by_name(str(constant(node.slice)), rank)
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    if any(first is parameter(module, node) for first in _indices(module)):
        return rank.number
    named = _by_name(last_part(source(node)), rank)
    if named is not None:
        return named
    found = {value(m, v, rank, depth - 1) for m, v in _set_to(module, node)}
    return found.pop() if len(found) == 1 else None


def _called(module: Module, call: ast.Call, rank: Rank, depth: int) -> int | None:
    name = last_part(module.name(call.func))
    if name == "device_count":
        return rank.gpus
    if name in ("int", "len") and len(call.args) == 1:
        return value(module, call.args[0], rank, depth - 1)
    if name in ("get", "getenv") and call.args:
        return _by_name(str(constant(call.args[0])), rank)
    return None


def _by_name(name: str, rank: Rank) -> int | None:
    """What a name says of a number: `node_rank`, `num_nodes`, `gpus_per_node`."""
    name = name.lower()
    if _NODE.fullmatch(name):
        return rank.node
    if _NODES.fullmatch(name):
        return rank.nodes
    if _GPUS.fullmatch(name):
        return rank.gpus
    if _EITHER.fullmatch(name):
        return rank.gpus * (rank.nodes if rank.in_all else 1)
    return None


@once
def _indices(module: Module) -> list[ast.arg]:
    """The parameters that `spawn` gives a rank's number on its node to."""
    return [parameters(start.worker)[0] for start in starts(module)]


def _set_to(module: Module, node: ast.Name | ast.Attribute) -> Iterator[tuple[Module, ast.expr]]:
    """What a name is set to, what `spawn` hands over, or what an attribute is set to elsewhere."""
    found = list(stands_for(module, node))
    given = parameter(module, node)
    for start in starts(module):
        names = parameters(start.worker)
        args = keyword(start.call, "args", 1)
        if given in names and isinstance(args, ast.Tuple | ast.List):
            found += [(start.module, a) for a in args.elts[names.index(given) - 1 :][:1]]
    if not found and isinstance(node, ast.Attribute):
        for other in module.program.modules:
            for (_, text), values in bindings(other).items():
                if text == source(node):
                    found += [(other, each.value) for each in values]
    yield from found
