"""F2, F5: which ranks share out which weights: meshes, and the order of the parts."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import keyword, names_in
from ddpgen.checking.reading.numbers import Rank, value
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import ERROR, WARNING, rule

_SHARDS = "fully_shard"
_OF_DATA = r"repli|shard|\bdp|ddp|data|node"


@rule(
    "F5",
    "the first dimension is for copies, the second for shares: these are on several nodes, and"
    " each forward gathers weights over the network",
    "nodes first: (nodes, gpus_per_node), so that the ranks of a node share the weights out",
    severity=WARNING,
)
def shares_over_nodes(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls(_SHARDS):
        return
    for call in module.called("init_device_mesh"):
        shape, names = keyword(call, "mesh_shape", 1), keyword(call, "mesh_dim_names", 2)
        if isinstance(shape, ast.Tuple) and len(shape.elts) == 2:
            first, second = (value(module, size, Rank(0, 0)) for size in shape.elts)
            of_data = names is None or mentions(module, names, _OF_DATA)
            if first == Rank(0, 0).gpus and second != first and of_data:
                yield shape


@rule(
    "F5",
    "the whole is shared out before its parts: it has taken all of their weights by then",
    "call fully_shard() on each block first, then on the whole",
    severity=ERROR,
)
def whole_before_parts(module: Module) -> Iterator[ast.AST]:
    calls = [call for call in module.called(_SHARDS) if call.args]
    for whole in (call for call in calls if module.loop(call) is None):
        for part in calls:
            loop = module.loop(part)
            same = module.scope(part) is module.scope(whole) and part.lineno > whole.lineno
            if same and isinstance(loop, ast.For) and loop.lineno > whole.lineno:
                parts = names_in(part.args[0]) & names_in(loop.target)
                if parts and names_in(whole.args[0]) & names_in(loop.iter):
                    yield whole
                    break


@rule(
    "F2",
    "some parts are shared out among the ranks of a mesh, and this one among all ranks of the job",
    "give every fully_shard() the same mesh",
)
def parts_of_two_meshes(module: Module) -> Iterator[ast.AST]:
    calls = [c for c in module.called(_SHARDS) if all(k.arg for k in c.keywords)]
    with_mesh = [call for call in calls if keyword(call, "mesh") is not None]
    for call in calls:
        if call not in with_mesh:
            if any(module.scope(other) is module.scope(call) for other in with_mesh):
                yield call
