"""S3: data sets of Hugging Face, which shuffle with numbers of their own."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import keyword, method_name, receiver, unpacks
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import commonly_seeded
from ddpgen.checking.reading.values import follows
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.shares import agreed

# How the ranks get their shares of a data set.
_DEALS = r"DistributedSampler|split_dataset_by_node|\.shard\("
_SAME_DATA = ("map", "filter", "select", "with_format", "remove_columns", "cast", "flatten")


@rule(
    "S3",
    "each rank shuffles this data set by itself: the shares overlap, and some of it nobody sees",
    "give all ranks one seed: shuffle(seed=seed)",
)
def hugging_face_order(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("shuffle"):
        seed = keyword(call, "seed", 0) or keyword(call, "generator", 1)
        if unpacks(call) or module.callees(call) or agreed(module, call):
            continue
        unseeded = seed is None or (isinstance(seed, ast.Constant) and seed.value is None)
        if not unseeded or not follows(module, receiver(call), _of_hugging_face):
            continue
        if on_ranks(module, call) and not guarded(module, call):
            if module.program.says(_DEALS) and not commonly_seeded(module, "numpy"):
                yield call


def _of_hugging_face(module: Module, node: ast.expr) -> bool | ast.expr | None:
    """Whether the datasets library has made a data set."""
    if isinstance(node, ast.Subscript):
        return node.value
    if isinstance(node, ast.Call):
        if re.match(r"datasets\.(load_|\w*Dataset)", module.name(node.func)):
            return True
        return receiver(node) if method_name(node) in _SAME_DATA else None
    return None
