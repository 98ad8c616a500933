"""K8, K9: signals, which reach one rank and not the others."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import agreed
from ddpgen.checking.reading.conditions import alternatives
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    last_part,
    matches,
    receiver,
    source,
)
from ddpgen.checking.reading.programs import Module, leads_to
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.reading.windows import goes_backward
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.ranks import is_collective

_SAVES = re.compile(r"(^|_)save|checkpoint|barrier|snapshot", re.IGNORECASE)
_STOPS = r"SIGTERM|SIGUSR\d"


def _handlers(module: Module, pattern: str = "") -> Iterator[Function | ast.Lambda]:
    """What runs when a signal comes, of those whose scope names a pattern."""
    for call in module.called("signal.signal"):
        handler = keyword(call, "handler", 1)
        if handler is not None and matches(module.scope(call), pattern):
            if isinstance(handler, ast.Lambda):
                yield handler
            name = getattr(handler, "id", getattr(handler, "attr", ""))
            yield from module.functions.get(name, [])


@rule(
    "K9",
    "a signal handler runs in the middle of anything, on one rank: it cannot save or wait",
    "set a flag here, agree on it over all ranks at the next step, and save there",
)
def work_in_handler(module: Module) -> Iterator[ast.AST]:
    for body in _handlers(module):
        for inner in ast.walk(body):
            if isinstance(inner, ast.Call) and (
                _SAVES.search(last_part(source(inner.func)))
                or leads_to(module, inner, _takes_part, 2)
            ):
                yield inner


def _takes_part(module: Module, call: ast.Call) -> bool | None:
    return is_collective(module, call) or None


@rule(
    "K9",
    "this rank leaves in the middle of a step: what was learnt since the last save is lost",
    "set a flag here, agree on it over all ranks at the next step, save, and leave then",
)
def leaves_in_handler(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"torch\.save\("):
        return
    for body in _handlers(module, _STOPS):
        for inner in ast.walk(body):
            if matches(inner, r"^(raise SystemExit\b.*|(sys|os)\._?exit\(.*\))$"):
                if isinstance(inner, ast.Raise | ast.Call):
                    yield inner


@rule(
    "K8",
    "only this rank has got the signal: it leaves, and the others wait for it",
    "reduce the flag over all ranks first",
)
def flag_of_one_rank(module: Module) -> Iterator[ast.AST]:
    flags = {name for m in module.program.modules for name in _flags(m)}
    for node in module.nodes:
        loop = module.loop(node) if isinstance(node, ast.If) else None
        if not isinstance(node, ast.If) or loop is None or not flags:
            continue
        own = rf"\b({'|'.join(map(re.escape, flags))})\b"
        asked = [test for test in alternatives(node.test) if mentions(module, test, own, 2)]
        leaves = any(isinstance(n, ast.Break | ast.Return | ast.Raise) for n in ast.walk(node))
        leaves = leaves or matches(node, r"exit|leave|requeue")
        trains = any(isinstance(n, ast.Call) and goes_backward(module, n) for n in ast.walk(loop))
        if leaves and trains and not all(agreed(module, test) for test in asked):
            yield node


@rule(
    "K8",
    "the smallest flag of all: the run stops only where every rank has got the signal",
    "reduce the flag with op=dist.ReduceOp.MAX",
)
def flag_of_all_ranks(module: Module) -> Iterator[ast.AST]:
    flags = {name for m in module.program.modules for name in _flags(m)}
    own = rf"\b({'|'.join(map(re.escape, flags))})\b"
    for call in module.called("torch.distributed.all_reduce") if flags else ():
        value, op = keyword(call, "tensor", 0), keyword(call, "op", 1)
        if value is None or not matches(op, r"\bMIN$"):
            continue
        filled = module.methods("fill_", "copy_", "add_", below=module.scope(call))
        given = [arg for c in filled if source(receiver(c)) == source(value) for arg in c.args]
        if any(mentions(module, each, own, 2) for each in (value, *given)):
            yield call


def _flags(module: Module) -> Iterator[str]:
    """Names that a handler sets to True."""
    for body in _handlers(module):
        for node in ast.walk(body):
            if isinstance(node, ast.Assign) and constant(node.value) is True:
                yield last_part(source(node.targets[0]))
