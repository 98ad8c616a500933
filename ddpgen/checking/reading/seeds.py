"""Seeds: whether the random numbers of a library may be the same on all ranks."""

import ast
import re

from ddpgen.checking.reading.expressions import last_part, matches, method_name
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions

# Modules whose functions draw from one global generator, and what it is called here.
LIBRARIES = {"torch": "torch", "numpy.random": "numpy", "random": "random"}
# What differs from rank to rank.
OWN = r"rank|worker|getpid\(|urandom\(|time\(\)|time_ns\(\)|secrets\."


def commonly_seeded(module: Module, kind: str) -> bool:
    """Whether the numbers of a library may be seeded alike on all ranks."""
    return any(_seeds_alike(other, kind) for other in module.program.modules)


def seeded_by_rank(module: Module, kind: str) -> bool:
    """Whether a library gets a seed that differs from rank to rank."""
    for other in module.program.modules:
        for call, _ in other.calls:
            own = any(mentions(other, value, OWN) for value in call.args)
            if own and _seeds(other, call) and _library(other, call) == kind:
                return True
    return False


def _seeds_alike(module: Module, kind: str) -> bool:
    for call, name in module.calls:
        if not _seeds(module, call) or re.match(
            r"torch\.((cuda|mps|xpu)\.|(initial_)?seed$)", name
        ):
            continue
        behind = [(m, c) for m, c in module.calls_behind(call) if _seeds(m, c)]
        inner = {_library(m, c) for m, c in behind if not any(matches(v, OWN) for v in c.args)}
        if not ((inner or {"none"}) if behind else {_library(module, call)}) & {"", kind}:
            continue
        values = [*call.args, *(k.value for k in call.keywords)]
        # Without a value a function of another package may take one that is fixed.
        takes = values or not (inner or _library(module, call))
        if takes and not any(mentions(module, value, OWN) for value in values):
            return True
    return False


def _seeds(module: Module, call: ast.Call) -> bool:
    return "seed" in (last_part(module.name(call.func)) or method_name(call))


def _library(module: Module, call: ast.Call) -> str:
    """Whose numbers a call seeds; "" where that is not known."""
    head = module.name(call.func).rpartition(".")[0]
    return LIBRARIES.get(head, "") or LIBRARIES.get(head.removesuffix(".random"), "")
