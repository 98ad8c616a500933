"""G4, G7, G8: from the gradients to the update."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.expressions import keyword, matches, receiver, source
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.roles import is_schedule
from ddpgen.checking.reading.source import exclusive
from ddpgen.checking.reading.values import binding
from ddpgen.checking.reading.windows import OPTIMIZER, backwards, is_update
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.precision import scalers


@rule(
    "G4",
    "gradients are cleared between backward and step: the update uses zeros",
    "clear them after the step, or before the first backward",
)
def cleared_before_step(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield from _between(module, block)


def _between(module: Module, block: list[ast.stmt]) -> Iterator[ast.AST]:
    yield from _just_before(module, block)
    seen, cleared = False, None
    for statement in block:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if list(module.methods("step", below=statement)) and matches(statement, OPTIMIZER):
            if cleared:
                yield cleared
            seen, cleared = False, None
        if isinstance(statement, ast.Expr):
            if seen and (calls := list(module.methods("zero_grad", below=statement))):
                cleared = calls[0]
            if list(module.methods("backward", below=statement)):
                seen, cleared = True, None


def _just_before(module: Module, block: list[ast.stmt]) -> Iterator[ast.AST]:
    """Cleared, then unscaled or clipped, then used."""
    for place, statement in enumerate(block):
        cleared = list(module.methods("zero_grad", below=statement))
        if not isinstance(statement, ast.Expr) or not cleared:
            continue
        clipped = any(matches(before, r"clip_grad") for before in block[:place])
        for number, following in enumerate(block[place + 1 :]):
            if any(map(is_update, module.methods("step", below=following))):
                if number or clipped:
                    yield cleared[0]
                break
            if not matches(following, r"unscale_\(|clip_grad"):
                break


@rule(
    "G4",
    "no turn of this loop clears the gradients: they add up from step to step",
    "call optimizer.zero_grad() once per step",
)
def never_cleared(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("step"):
        elsewhere = module.program.says(r"distributed\.autograd")  # clears by itself
        loops = list(_loops(module, call)) if is_update(call) and not elsewhere else []
        uncleared = not any(_clears(m, loop) for m, loop in loops)
        if loops and (
            uncleared or _clears_others(loops, call.args[0] if call.args else receiver(call))
        ):
            yield call


def _loops(module: Module, node: ast.AST, depth: int = 4) -> Iterator[tuple[Module, ast.AST]]:
    """The innermost loops that reach a place, by calls; what goes backward elsewhere is no loop."""
    if loop := module.loop(node):
        if any(backwards(module, loop)) or depth < 4:
            yield module, loop
        return
    function = module.function(node)
    for other, use in uses(module, function) if function and depth else ():
        yield from _loops(other, use, depth - 1)


def _clears_others(loops: list[tuple[Module, ast.AST]], optimizer: ast.expr) -> bool:
    """Whether loops clear the gradients of other optimizers, and of nothing else."""
    found = [call for m, loop in loops for call in m.methods("zero_grad", below=loop)]
    cleared = {source(receiver(call)) for call in found}
    by_hand = any(matches(loop, r"\.grad = None|grad\.zero_") for _, loop in loops)
    each = all(re.search(OPTIMIZER, text) for text in cleared)
    named = isinstance(optimizer, ast.Name) and source(optimizer) not in cleared
    return bool(cleared) and named and each and not by_hand


@once
def _clears(module: Module, node: ast.AST, depth: int = 4) -> bool:
    """Whether gradients are cleared within a node, or in functions that it calls."""
    if re.search(r"zero_grad|\.grad = None|grad\.zero_|set_to_none", source(node)):
        return True
    return depth > 0 and any(
        _clears(other, function, depth - 1)
        for call in module.calls_below(node)
        for other, function in module.callees(call)
    )


@rule(
    "G7",
    "the gradients are still scaled here, so that the limit means something else in every step",
    "call scaler.unscale_(optimizer) first",
)
def clipped_scaled(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_", "clip_grad_value_"):
        scope = module.scope(call)
        scaled = [s for s in module.methods("step", "update", below=scope) if _is_scalers(s)]
        together = [step for step in scaled if not exclusive(module, step, call)]
        unscaled = [u for u in module.methods("unscale_", below=scope) if u.lineno < call.lineno]
        if together and not unscaled:
            yield call


def _is_scalers(call: ast.Call) -> bool:
    return matches(call.func, r"scaler")


@rule(
    "G7",
    "gradients are limited before backward or after the step: the update has no limit",
    "clip them between backward and step",
)
def clipped_at_another_time(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_", "clip_grad_value_"):
        statement = module.statement(call)
        above = module.parents[statement]
        blocks = (getattr(above, name, None) for name in ("body", "orelse", "finalbody"))
        block = next((b for b in blocks if isinstance(b, list) and statement in b), [])
        kinds = [_kind(module, other) for other in block]
        place = block.index(statement) if block else 0
        before, after = "".join(kinds[:place]), "".join(kinds[place + 1 :])
        early = "B" not in before and re.match("B+S", after)
        late = "S" not in after and re.search("(^|B)S+$", before)
        if early or late:
            yield call


def _kind(module: Module, statement: ast.stmt) -> str:
    """B for a backward, S for an update, C for both or for clipping, else nothing."""
    if matches(statement, r"clip_grad"):
        return "C"
    backward = any(module.methods("backward", below=statement))
    step = any(is_update(call) for call in module.methods("step", below=statement))
    return "C" if backward and step else "B" * backward + "S" * step


@rule(
    "G7",
    "a generator of parameters is used up after its first use: this clips nothing",
    "keep a list, or call model.parameters() again",
)
def exhausted(module: Module) -> Iterator[ast.AST]:
    for call in module.called("clip_grad_norm_"):
        given = keyword(call, "parameters", 0)
        if not isinstance(given, ast.Name):
            continue
        found = binding(module, given)
        if found and matches(found.value, r"^(filter\(.*\)|[\w.]+\.parameters\(\)|\(.* for .*\))$"):
            if isinstance(found.statement, ast.Assign):
                again = module.loop(call) and not module.loop(found.statement)
                if again or len(module.reads(given.id, module.scope(found.statement))) > 1:
                    yield call


@rule(
    "G8",
    "the schedule advances before the update: the first rate is never used",
    "step the scheduler behind optimizer.step()",
)
def scheduled_before_update(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("step"):
        if call.args or not is_schedule(module, receiver(call)):
            continue
        statement = module.statement(call)
        block = module.parents[statement]
        backward = [c for c in module.methods("backward", below=block) if c.lineno < call.lineno]
        steps = [c for c in module.methods("step", below=block) if is_update(c)]
        same = [c for c in steps if module.parents[module.statement(c)] is block]
        if backward and same and all(c.lineno > call.lineno for c in steps):
            yield call


@rule(
    "G8",
    "the schedule advances although the scaler may have skipped the step",
    "step the scheduler only if scaler.get_scale() has not become smaller",
    severity=WARNING,
)
def scheduled_after_skip(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if "get_scale" in program.names or not any(any(scalers(m)) for m in program.modules):
        return
    for step in module.methods("step"):
        if _is_scalers(step):
            block = module.parents[module.statement(step)]
            for call in module.methods("step", below=block):
                same = module.parents[module.statement(call)] is block
                if same and is_schedule(module, receiver(call)):
                    yield call
