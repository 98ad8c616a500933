"""S1, S6: what every rank draws for itself, with numbers that all ranks share."""

import ast
from collections.abc import Iterator
from functools import partial

from ddpgen.checking.reading.expressions import (
    keyword,
    matches,
    names_in,
    parameters,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.seeds import LIBRARIES, commonly_seeded, seeded_by_rank
from ddpgen.checking.reading.values import follows, mentions
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.alone import WRAPPED
from ddpgen.checking.rules.data import EVALUATION
from ddpgen.checking.rules.output import in_training

_DRAWS = ("randint", "randperm", "integers", "permutation", "choice", "choices", "sample")
_MAKES_GENERATOR = (
    r"^([\w.]+\.)?(Generator\(.*\)\.manual_seed|Generator|default_rng|RandomState|Random)\("
)
_MOVES_ON = r"epoch|step|iter|rank|worker|count|ind(ex|ices)|\bi(dx)?\b"
# Signs that each rank has its share of something.
_SHARED_OUT = (
    r"DistributedSampler\(|rank\w*\]?\s*(::|\*)|\*\s*[\w.]*rank|(?<!fully_)shard|"
    r"array_split|chunk\("
)


@rule(
    "S1",
    "drawn with a seed that all ranks share: every rank learns from the same samples",
    "make the rank part of the seed, or take this rank's share of what is drawn",
)
def same_draw_on_every_rank(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.says(WRAPPED) or program.says(_SHARED_OUT):
        return
    for call in module.methods(*_DRAWS):
        generator = keyword(call, "generator") or receiver(call)
        alike = follows(module, generator, partial(_seeded_alike, name=source(generator)))
        if alike and _chooses_samples(module, call) and in_training(module, call):
            yield call


@rule(
    "S1",
    "drawn from a global generator with one seed for all ranks, which learn from the same samples",
    "make the rank part of the seed, or take this rank's share of what is drawn",
)
def same_global_draw(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(WRAPPED) or module.program.says(_SHARED_OUT):
        return
    for call, name in module.calls:
        library, _, drawn = name.rpartition(".")
        kind = LIBRARIES.get(library)
        # torch's seed is looked at where it is set.
        if kind in ("numpy", "random") and drawn in _DRAWS and commonly_seeded(module, kind):
            own = seeded_by_rank(module, kind)
            if not own and _chooses_samples(module, call) and in_training(module, call):
                yield call


@rule(
    "S6",
    "training draws on from here: after each call the same numbers come again, on all ranks alike",
    "draw from a generator of its own: torch.Generator().manual_seed(0)",
)
def seeded_anew(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.manual_seed", "numpy.random.seed", "random.seed"):
        function = module.function(call)
        around = function or module.loop(call)
        keeps = around and matches(around, r"rng_state|getstate|setstate|fork_rng")
        varies = "|".join([_MOVES_ON, *(rf"\b{name}\b" for name in _varying(module, call))])
        fixed = call.args and not mentions(module, call.args[0], varies)
        if fixed and around and not keeps and in_training(module, call):
            yield call


def _varying(module: Module, node: ast.AST) -> set[str]:
    """The names that may be others when a node comes again: of loops, and of a function."""
    loops = [n.target for n in module.above(node) if isinstance(n, ast.For)]
    function = module.function(node)
    return stored_in(*loops) | {p.arg for p in (parameters(function) if function else ())}


@rule(
    "S1",
    "every rank draws this order with the seed that all share, and learns from the same samples",
    "make the rank part of the seed of its generator",
)
def same_weighted_order(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(WRAPPED) or module.program.says(_SHARED_OUT):
        return
    for call in module.called("WeightedRandomSampler"):
        own = keyword(call, "generator", 3)
        alike = partial(_seeded_alike, name=source(own) if own else "")
        if follows(module, own, alike) if own else commonly_seeded(module, "torch"):
            if not matches(module.statement(call), EVALUATION):
                yield call


def _seeded_alike(module: Module, node: ast.expr, name: str) -> bool | None:
    """Whether a generator gets a seed, under its name or where it is made, without the rank."""
    if not isinstance(node, ast.Call):
        return None if isinstance(node, ast.Name | ast.Attribute) else False
    if not matches(node, _MAKES_GENERATOR):
        return False
    later = [c for c in module.methods("manual_seed", "seed") if source(receiver(c)) == name]
    seeds = [call.args[0] for call in (node, *later) if call.args]
    return bool(seeds) and not any(mentions(module, seed, r"rank|worker|device") for seed in seeds)


def _chooses_samples(module: Module, call: ast.Call) -> bool:
    """Whether what is drawn is looked up somewhere."""
    statement = module.statement(call)
    names = names_in(*statement.targets) if isinstance(statement, ast.Assign) else set[str]()
    for node in module.below(module.scope(call)):
        where: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            where = node.slice
        elif isinstance(node, ast.comprehension | ast.For):
            where = node.iter
        if where and (names & names_in(where) or call in ast.walk(where)):
            return True
    return False
