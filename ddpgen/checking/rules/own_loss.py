"""O2: numbers of rank 0 alone, shown as if they were those of all."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.agreements import agreed, shares
from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import source
from ddpgen.checking.reading.given import arguments
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import bindings, results
from ddpgen.checking.reading.windows import goes_backward, gone_backward
from ddpgen.checking.registry import STYLE, rule

_SHOWS = re.compile(
    r"print|[\w.]*(logger|log|logging|wandb|mlflow)\.(info|log|log_metrics?)|"
    r".*\.(add_scalars?|write|writerow)|json\.dump"
)
_REDUCES = ("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "reduce")
_GRADIENTS = r"(reduce|gather)\w*\([^\n]*grad"


@rule(
    "O2",
    "rank 0 shows its own loss, and this program reduces other numbers over the ranks",
    "reduce the loss over all ranks where it is shown",
    severity=STYLE,
)
def loss_of_rank_0(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls(*_REDUCES) or module.program.says(_GRADIENTS):
        return
    for call, _ in module.calls:
        if not _SHOWS.fullmatch(source(call.func)) or zero_guard(module, call) is None:
            continue
        given = [*call.args, *(each.value for each in call.keywords)]
        names = [n for value in given for n in ast.walk(value) if isinstance(n, ast.Name)]
        if any(_is_own(module, name) for name in names) and _in_training(module, call):
            yield call


def _in_training(module: Module, node: ast.AST, depth: int = 3) -> bool:
    """Whether a loop that trains comes here."""
    for loop in (n for n in module.above(node) if isinstance(n, ast.For | ast.While)):
        if any(goes_backward(module, call, 3) for call in module.calls_below(loop)):
            return True
    function = module.function(node)
    found = uses(module, function) if function and depth else ()
    return any(_in_training(other, use, depth - 1) for other, use in found)


def _is_own(module: Module, name: ast.Name, depth: int = 4) -> bool:
    """Whether a number comes from a loss that goes backward, and no rank tells the others."""
    if depth == 0 or agreed(module, name):
        return False
    if name.id in gone_backward(module, module.scope(name)):
        return True
    scope, table = module.scope(name), bindings(module)
    parts = [text for place, text in table if place is scope and text.startswith(f"{name.id}[")]
    found = [b.value for text in (name.id, *parts) for b in table.get((scope, text), [])]
    if any(shares(module, value) for value in found):
        return False
    for value in found:
        inside = [n for n in ast.walk(value) if isinstance(n, ast.Name)]
        if any(_is_own(module, part, depth - 1) for part in inside if part.id != name.id):
            return True
        for other, given in results(module, value) if isinstance(value, ast.Call) else ():
            if isinstance(given, ast.Name) and _is_own(other, given, depth - 1):
                return True
    handed = arguments(module, name) if not found else ()
    inner = ((m, n) for m, v in handed for n in ast.walk(v) if isinstance(n, ast.Name))
    return any(_is_own(other, part, depth - 1) for other, part in inner)
