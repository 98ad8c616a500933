"""K4, K7: random states of ranks, and files that each rank looks for under a name of its own."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, entries, keyword, matches
from ddpgen.checking.reading.guards import guarded, zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import binding, mentions
from ddpgen.checking.registry import ERROR, WARNING, rule
from ddpgen.checking.rules.resume import snapshots


@rule(
    "K4",
    "one rank's random state is restored on every rank: they all draw the same numbers",
    "gather the state of each rank, or derive seeds from (step, rank)",
)
def shared_random_state(module: Module) -> Iterator[ast.AST]:
    program = module.program
    modules = [m for m in program.modules if "get_rng_state" in m.text]
    brought = [c for m in modules for c, name in m.calls if re.search("gather|scatter", name)]
    by_rank = any(matches(call, r"rng|random|state") for call in brought)
    by_rank |= any(
        mentions(m, p, "rank") for m, c in program.called("torch.save") for p in c.args[1:2]
    )
    for call, name in module.calls if modules else ():
        if name.endswith("set_rng_state") and call.args and not guarded(module, call):
            given = call.args[0]
            first = _is_first(module, given)
            if first or not (by_rank or matches(given, "rank")):
                yield call


def _is_first(module: Module, node: ast.expr, depth: int = 3) -> bool:
    """Whether something is a part of what stands at a fixed place: `saved["rngs"][0]["cuda"]`."""
    while isinstance(node, ast.Subscript):
        if isinstance(constant(node.slice), int):
            return True
        node = node.value
    found = binding(module, node) if depth and isinstance(node, ast.Name) else None
    return found is not None and _is_first(module, found.value, depth - 1)


@rule(
    "K4",
    "the random state is saved, and nothing restores it: a resumed run draws other numbers",
    "restore each rank's state: torch.set_rng_state(saved['rng'][rank])",
    severity=WARNING,
)
def random_state_unread(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"set_rng_state|set_state\(|setstate\(") or not module.program.calls(
        "load"
    ):
        return
    for node, _ in snapshots(module):
        for key, saved in entries(node):
            named = re.search(r"rng|random_state", str(constant(key)))
            if key is not None and (named or mentions(module, saved, r"get_rng_state\(", 2)):
                yield key


@rule(
    "K7",
    "rank 0 alone writes such files, and each rank looks for one of its own: the others start anew",
    "load the file that rank 0 writes, on all ranks",
    severity=ERROR,
)
def file_of_each_rank(module: Module) -> Iterator[ast.AST]:
    saves = module.program.called("torch.save")
    if not saves or not all(zero_guard(m, call) is not None for m, call in saves):
        return
    for call in module.called("torch.load"):
        path = keyword(call, "f", 0)
        if path is not None and mentions(module, path, r"(?<!world_)\b(local_)?rank\b"):
            if zero_guard(module, call) is None:
                yield call
