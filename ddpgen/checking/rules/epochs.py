"""S2: orders that a sampler deals out anew for each epoch, or always the same."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    matches,
    method_name,
    positional,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.windows import updates
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.data import EVALUATION, SAMPLER

# Numbers that each process finds for itself.
_OWN = r"getpid\(|urandom\(|time\(\)|time_ns\(\)|randint\(|randrange\(|secrets\."
_ASKS_RANK = r"environ(\[|\.get\()[\"']RANK[\"']"


@rule(
    "S2",
    "without set_epoch the sampler gives the same order in every epoch",
    "call sampler.set_epoch(epoch) at the start of each epoch",
)
def no_set_epoch(module: Module) -> Iterator[ast.AST]:
    told = [receiver(call) for _, call in module.program.names.get("set_epoch", [])]
    if any(not matches(sampler, EVALUATION) for sampler in told):
        return
    for call in module.called(SAMPLER):
        shuffle = keyword(call, "shuffle", 3)
        if constant(shuffle) is False or matches(module.statement(call), EVALUATION):
            continue
        if module.program.says(r"for \w*epoch\w* in|while .*epoch|\.backward\("):
            yield call


@rule(
    "S2",
    "the same number in every epoch: the order never changes",
    "pass the number of the epoch: sampler.set_epoch(epoch)",
)
def constant_epoch(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        seed = call.args and re.search(r"(^|[._])seed$", source(call.args[0]))
        if call.args and (seed or isinstance(call.args[0], ast.Constant)):
            yield call


@rule(
    "S2",
    "without shuffling the order is the same in every epoch, and set_epoch() changes nothing",
    "leave shuffle=False out of the training's sampler",
)
def epochs_of_one_order(module: Module) -> Iterator[ast.AST]:
    told = {source(receiver(call)) for call in module.methods("set_epoch")}
    for node, target in module.assignments(ast.expr):
        made = node.value
        if isinstance(made, ast.Call) and made in {*module.called(SAMPLER)}:
            fixed = constant(keyword(made, "shuffle", 3)) is False
            if fixed and source(target) in told and not matches(node, EVALUATION):
                yield made


@rule(
    "S2",
    "the loop has its order already: this counts from the next epoch on, or never",
    "call sampler.set_epoch(epoch) before the loop over the loader begins",
)
def epoch_set_too_late(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        loop = module.loop(call)
        once = loop and not any(isinstance(n, ast.Break) for n in module.below(loop))
        if isinstance(loop, ast.For) and once and matches(loop.iter, r"load(er)?\b"):
            if any(module.loop(b) is loop for b in module.methods("backward", below=loop)):
                yield call


@rule(
    "S2",
    "this comes behind the epoch's training: the first two epochs have one order",
    "call sampler.set_epoch(epoch) before the loop over the loader begins",
)
def epoch_set_behind(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("set_epoch"):
        loop = module.loop(call)
        if isinstance(loop, ast.For) and call.args and source(call.args[0]) == source(loop.target):
            before = [c for c in module.calls_below(loop) if c.lineno < call.lineno]
            again = any(source(c.func) == source(call.func) for c in before)
            if not again and any(updates(module, c, 2) for c in before):
                yield call


@rule(
    "S2",
    "the same number in every epoch, which reaches set_epoch: the order never changes",
    "pass the number of the epoch",
)
def constant_epoch_handed_on(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        if module.loop(call) is None:
            continue
        for other, function in module.callees(call):
            for name, given in zip(positional(function), call.args, strict=False):
                if type(constant(given)) is int and _reaches_set_epoch(other, function, name):
                    yield given


def _reaches_set_epoch(module: Module, function: Function, name: str, depth: int = 2) -> bool:
    """Whether a parameter becomes a sampler's epoch."""
    for call in module.calls_below(function):
        places = [place for place, given in enumerate(call.args) if source(given) == name]
        if places and method_name(call) == "set_epoch":
            return True
        for other, inner in module.callees(call) if depth else ():
            handed = [n for place, n in enumerate(positional(inner)) if place in places]
            if any(_reaches_set_epoch(other, inner, n, depth - 1) for n in handed):
                return True
    return False
