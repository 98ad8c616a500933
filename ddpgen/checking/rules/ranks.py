"""D10, K8, O3: the ranks' numbers, and ranks that do not take part in what all do together."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import uses
from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    Function,
    constant,
    keyword,
    last_part,
    matches,
    source,
)
from ddpgen.checking.reading.guards import is_zero, zero_guard
from ddpgen.checking.reading.nodes import is_local_rank, local_zero_guard, of_a_node, on_one_node
from ddpgen.checking.reading.programs import Module, once
from ddpgen.checking.reading.values import is_ddp
from ddpgen.checking.registry import rule

_COLLECTIVE = re.compile(
    r"(monitored_)?barrier|all_reduce(_coalesced)?|all_gather(_object|_into_tensor)?|"
    r"all_to_all(_single)?|broadcast(_object_list)?|gather(_object)?|"
    r"reduce(_scatter(_tensor)?)?|scatter(_object_list)?"
)
# Where it holds, no rank has the whole model, and another part of the program evaluates.
_SHARDED = re.compile(r"fsdp", re.IGNORECASE)
_EVALUATES = re.compile(r"eval|valid|test", re.IGNORECASE)


@rule(
    "D10",
    "the local rank is given for the global one: on two nodes two ranks have each number",
    "give the global rank: int(os.environ['RANK']), or leave rank out",
)
def local_rank_for_global(module: Module) -> Iterator[ast.AST]:
    if on_one_node(module):
        return
    for call in module.called("init_process_group"):
        rank, world = keyword(call, "rank", 4), keyword(call, "world_size", 3)
        if rank is not None and not of_a_node(world) and is_local_rank(module, rank):
            yield rank
    for node, target in module.assignments(ast.Subscript):
        if matches(target.value, r"environ$") and constant(target.slice) == "RANK":
            if is_local_rank(module, node.value):
                yield node.value


def is_collective(module: Module, call: ast.Call) -> bool:
    """Whether a call is one of torch.distributed's that all ranks must make."""
    head, _, last = module.name(call.func).rpartition(".")
    whole_world = keyword(call, "group") is None and head.startswith("torch.distributed")
    return whole_world and _COLLECTIVE.fullmatch(last) is not None


@once
def collectives(module: Module, function: Function, depth: int = 2) -> list[str]:
    """The collectives that a call of this function makes on every rank that calls it."""
    found = []
    for call in module.calls_below(function):
        tests = [source(test) for test, outcome in conditions(module, call) if outcome]
        if zero_guard(module, call) or any(map(_SHARDED.search, tests)):
            continue
        if is_collective(module, call):
            found.append(last_part(module.name(call.func)))
        elif depth:
            for other, inner in module.callees(call):
                if inner is not function:
                    found += collectives(other, inner, depth - 1)
    return found


def _others_take_part(module: Module, call: ast.Call, names: list[str]) -> bool:
    """Whether the other ranks have a branch of their own with the same collective."""
    for other in module.calls_below(module.scope(call)):
        name = module.name(other.func)
        if other is not call and (last_part(name) in names or name == module.name(call.func)):
            tests = conditions(module, other)
            if any("rank" in source(t).lower() and not is_zero(t, o) for t, o in tests):
                return True
    return False


@rule(
    "K8",
    "only rank 0 comes here, but all ranks must take part: they hang",
    "move the collective out of the condition",
)
def collective_on_one_rank(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        if zero_guard(module, call) is None and not local_zero_guard(module, call, 0):
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
    "all ranks of the job must make each new group, also those that are not in it: they hang",
    "make every group on every rank, and use it where the rank belongs to it",
)
def group_on_some_ranks(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.new_group"):
        tests = (test for test, _ in conditions(module, call))
        if any(re.search(r"\brank\b", source(test)) for test in tests):
            if keyword(call, "use_local_synchronization") is None:
                yield call


@rule(
    "K8",
    "each rank decides this by itself: where they differ, those inside wait for ever",
    "reduce the condition over all ranks first",
)
def collective_on_local_condition(module: Module) -> Iterator[ast.AST]:
    agreeing = ("all_reduce", "reduce", "all_gather", "all_gather_object", "broadcast_object_list")
    if module.program.calls(*agreeing):
        return
    local = re.compile(r"\bbest|should_stop|patience|isnan|stop_requested")
    for call, _ in module.calls:
        if is_collective(module, call):
            if any(local.search(source(test)) for test, _ in conditions(module, call)):
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
    buffers = module.program.says(r"BatchNorm|torchvision\.models|resnet")
    if not buffers or module.program.says("broadcast_buffers=False"):
        return
    for call, _ in module.calls:
        given = [call.func, *(a for a in call.args if _EVALUATES.search(source(call.func)))]
        named = [g for g in given if isinstance(g, ast.Name | ast.Attribute)]
        if any(is_ddp(module, g) for g in named) and _alone(module, call):
            yield call


def _alone(module: Module, node: ast.AST) -> bool:
    """Whether rank 0 alone comes to a place, or to all calls of the function around the place."""
    if zero_guard(module, node):
        return True
    function = module.function(node)
    found = list(uses(module, function)) if function else []
    return bool(found) and all(zero_guard(m, use) for m, use in found)
