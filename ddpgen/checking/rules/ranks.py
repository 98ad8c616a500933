"""K8, O3: ranks that do not take part in what all must do together."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.expressions import Function, keyword, last_part, source
from ddpgen.checking.guards import conditions, is_zero, zero_guard
from ddpgen.checking.programs import Module, once
from ddpgen.checking.registry import rule
from ddpgen.checking.values import is_ddp

COLLECTIVES = frozenset(
    [
        "barrier",
        "monitored_barrier",
        "all_reduce",
        "all_gather",
        "all_gather_object",
        "all_gather_into_tensor",
        "all_reduce_coalesced",
        "all_to_all",
        "all_to_all_single",
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "scatter",
        "scatter_object_list",
    ]
)
# Where it holds, no rank has the whole model, and another part of the program evaluates.
_SHARDED = re.compile(r"fsdp", re.IGNORECASE)
_EVALUATES = re.compile(r"eval|valid|test", re.IGNORECASE)


def is_collective(module: Module, call: ast.Call) -> bool:
    """Whether a call is one of torch.distributed's that all ranks must make."""
    head, _, last = module.name(call.func).rpartition(".")
    whole_world = keyword(call, "group") is None
    return last in COLLECTIVES and head.startswith("torch.distributed") and whole_world


@once
def collectives(module: Module, function: Function, depth: int = 2) -> list[str]:
    """The collectives that a call of this function makes on every rank that calls it."""
    found = []
    for call in module.below(function):
        if isinstance(call, ast.Call) and not zero_guard(module, call):
            name = last_part(module.name(call.func))
            tests = [source(test) for test, outcome in conditions(module, call) if outcome]
            if any(map(_SHARDED.search, tests)):
                continue
            if is_collective(module, call):
                found.append(name)
            elif depth:
                for other, inner in module.callees(call):
                    if inner is not function:
                        found += collectives(other, inner, depth - 1)
    return found


def _others_take_part(module: Module, call: ast.Call, names: list[str]) -> bool:
    """Whether the other ranks have a branch of their own with the same collective."""
    scope = module.scope(call)
    for other in module.below(scope):
        if isinstance(other, ast.Call) and other is not call:
            same = last_part(module.name(other.func)) in names
            same = same or module.name(other.func) == module.name(call.func)
            tests = list(conditions(module, other))
            if same and any("rank" in source(t).lower() and not is_zero(t, o) for t, o in tests):
                return True
    return False


@rule(
    "K8",
    "only rank 0 comes here, but all ranks must take part: they hang",
    "move the collective out of the condition",
)
def collective_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if zero_guard(module, call) is None:
            continue
        last = last_part(name)
        names = [last] if is_collective(module, call) else []
        if not names and not _EVALUATES.search(last):
            for other, function in module.callees(call):
                names += collectives(other, function)
        if names and not _others_take_part(module, call, names):
            yield call


@rule(
    "K8",
    "each rank decides this by itself: where they differ, those inside wait for ever",
    "reduce the condition over all ranks first",
)
def collective_on_local_condition(module: Module) -> Iterator[ast.AST]:
    if any(
        module.program.calls(n)
        for n in (
            "all_reduce",
            "reduce",
            "all_gather",
            "all_gather_object",
            "broadcast_object_list",
        )
    ):
        return
    for call, _ in module.calls:
        if is_collective(module, call) and any(
            re.search(r"\bbest|should_stop|patience|isnan|stop_requested", source(test))
            for test, _ in conditions(module, call)
        ):
            yield call


@rule(
    "O3",
    "rank 0 evaluates alone, but there is a collective inside: it hangs",
    "let all ranks evaluate their share, and let rank 0 report",
)
def evaluation_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        last = last_part(name)
        if zero_guard(module, call) is None or not _EVALUATES.search(last):
            continue
        functions = module.callees(call)
        if any(collectives(other, function) for other, function in functions):
            yield call


@rule(
    "O3",
    "rank 0 alone runs the wrapped model, whose forward sends buffers to all ranks",
    "evaluate on all ranks, or run model.module here",
)
def wrapped_forward_on_one_rank(module: Module) -> Iterator[ast.AST]:
    if not module.program.says(r"BatchNorm|torchvision\.models|resnet"):
        return
    for call, _ in module.calls:
        test = zero_guard(module, call)
        if test is None:
            continue
        given = [call.func, *(a for a in call.args if _EVALUATES.search(source(call.func)))]
        if any(isinstance(g, ast.Name | ast.Attribute) and is_ddp(module, g) for g in given):
            yield call
