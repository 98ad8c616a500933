"""S6: seeds that are the same on several ranks, where each of them has to draw by itself."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    method_name,
    receiver,
    source,
)
from ddpgen.checking.reading.guards import guarded, without_gradients
from ddpgen.checking.reading.nodes import is_local_rank, on_one_node
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import OWN
from ddpgen.checking.reading.values import mentions, stands_for
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.data import LOADER

_DRAWS = r"^torch\.(randn|rand|bernoulli|normal)(_like)?$"
# What workers draw from generators that the loader seeds.
DRAWN_BY_WORKERS = (
    r"initial_seed\(\)|Random(Resized|Horizontal|Vertical|Crop|Rotation|Affine|Erasing)\w*\(|"
    r"AutoAugment|ColorJitter|TrivialAugment|albumentations"
)
_NODES = r"(?<!local_)(?<!local)(?<![a-z])(global_?)?rank|node|host|world|procid"


@rule(
    "S6",
    "the local rank comes again on each node: ranks of two nodes draw the same random numbers",
    "derive the seed from the global rank: dist.get_rank()",
    severity=WARNING,
)
def seeded_by_local_rank(module: Module) -> Iterator[ast.AST]:
    if on_one_node(module):
        return
    for call, name in module.calls:
        if "seed" in (last_part(name) or method_name(call)):
            for value in call.args:
                parts = [n for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)]
                local = any(is_local_rank(module, part) for part in parts)
                if local and not mentions(module, value, _NODES, 1):
                    yield call


@rule(
    "S6",
    "this generator has the same seed on all ranks: the noise repeats on each of them",
    "make the rank part of the generator's seed",
    severity=WARNING,
)
def noise_drawn_alike(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        drawn = keyword(call, "generator") if re.match(_DRAWS, name) else None
        if drawn is None or without_gradients(module, call) or guarded(module, call):
            continue
        if _seeded_alike(module, drawn) and module.program.calls("backward"):
            yield call


@rule(
    "S6",
    "workers of all ranks get their seeds from this generator: ranks draw the same augmentation",
    "make the rank part of the generator's seed",
    severity=WARNING,
)
def workers_seeded_alike(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(DRAWN_BY_WORKERS):
        return
    for call in module.called(LOADER):
        given, sampler = keyword(call, "generator"), keyword(call, "sampler", 3)
        works = constant(keyword(call, "num_workers", 5)) != 0
        if given is not None and sampler is not None and works and _seeded_alike(module, given):
            if keyword(call, "num_workers", 5) is not None and on_ranks(module, call):
                yield call


def _seeded_alike(module: Module, node: ast.expr, depth: int = 3) -> bool:
    """Whether an expression is a generator whose seed is no rank's own."""
    if isinstance(node, ast.Call):
        made = method_name(node) == "manual_seed" and matches(receiver(node), r"\bGenerator\(")
        if made:
            return not any(mentions(module, value, OWN) for value in node.args)
        returned = [
            (m, inner.value)
            for m, function in module.callees(node)
            for inner in m.below(function)
            if isinstance(inner, ast.Return) and inner.value is not None
        ]
        return depth > 0 and any(_seeded_alike(m, value, depth - 1) for m, value in returned)
    later = [
        call
        for call in module.methods("manual_seed", below=module.scope(node))
        if isinstance(node, ast.Name) and source(receiver(call)) == node.id
    ]
    if later:
        return not any(mentions(module, value, OWN) for call in later for value in call.args)
    return depth > 0 and any(
        _seeded_alike(m, value, depth - 1) for m, value in stands_for(module, node)
    )
