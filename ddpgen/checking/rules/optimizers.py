"""G1: optimizers that nobody steps, and two for the same parameters."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import keyword, last_part, source
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.registry import rule

_MADE = r"torch\.optim\.[A-Z]\w+$"
# What is done with an optimizer besides its step.
_BESIDES = (
    "add_param_group",
    "load_state_dict",
    "param_groups",
    "state",
    "state_dict",
    "zero_grad",
)
_BESIDES_CALLS = r"lr_scheduler\.\w+$|(^|\.)unscale_$|^print$"


def _made(module: Module) -> Iterator[tuple[ast.Assign, ast.expr, ast.Call]]:
    """Where optimizers are made: the statement, the name, and the call."""
    for node, target in module.assignments(ast.expr):
        if isinstance(node.value, ast.Call) and isinstance(target, ast.Name | ast.Attribute):
            if re.match(_MADE, module.name(node.value.func)):
                yield node, target, node.value


@rule(
    "G1",
    "nobody steps this optimizer: the weights that it is made for stay as they were",
    "call its step() behind the backward of its loss",
)
def never_stepped(module: Module) -> Iterator[ast.AST]:
    for node, target, _ in _made(module) if module.program.calls("backward") else ():
        found = module.program.references(last_part(source(target)))
        reads = [(m, n) for m, n in found if isinstance(n.ctx, ast.Load)]
        if reads and all(_is_besides(m, n) for m, n in reads):
            yield node


def _is_besides(module: Module, node: ast.expr) -> bool:
    """Whether a place that reads an optimizer can be no step, and hands it to nobody who steps."""
    above = module.parents[node]
    if isinstance(above, ast.Attribute):
        return above.attr in _BESIDES
    if isinstance(above, ast.Call) and node is not above.func:
        return re.search(_BESIDES_CALLS, module.name(above.func) or source(above.func)) is not None
    return False


@rule(
    "G1",
    "another optimizer has these parameters, too: one network is stepped twice, and another never",
    "give each optimizer the parameters of its own network",
)
def same_parameters(module: Module) -> Iterator[ast.AST]:
    known: dict[tuple[ast.AST, str], set[str]] = defaultdict(set)
    for node, target, call in _made(module):
        given = keyword(call, "params", 0)
        if given is not None and re.fullmatch(r"[\w.]+\.parameters\(\)", source(given)):
            name = re.escape(source(target))
            steps = module.program.says(rf"\b{name}\.step\(|\.step\({name}\)")
            place = (module.parents[node], source(given))
            known[place] |= {name} if steps else set()
            if steps and len(known[place]) > 1:
                yield node
