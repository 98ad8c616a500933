"""D13, D14: what happens once, before the training."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.expressions import Function, constant, last_part, matches, method_name, source
from ddpgen.checking.guards import guarded, zero_guard
from ddpgen.checking.programs import Module, once
from ddpgen.checking.registry import rule

_PREPARES = (
    r"^prepare(_data)?$|download|preprocess|tokenize|extract|prepare_data|"
    r"build_(vocab|dataset|index)|untar|unzip"
)


@rule(
    "D13",
    "every rank downloads at once, into the same files",
    "download once per node, before the process group exists and under a lock",
)
def download_on_every_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"FileLock\(|flock\("):
        return
    for call, _ in module.calls:
        for argument in call.keywords:
            if (
                argument.arg == "download"
                and constant(argument.value) is True
                and not guarded(module, call)
            ):
                yield argument.value


@rule(
    "D13",
    "the process group does not exist yet, so that every rank takes itself for rank 0",
    "ask after init_process_group, or read RANK from the environment",
)
def rank_before_group(module: Module) -> Iterator[ast.AST]:
    for function in [module.tree, *module.all_functions]:
        start = _first_init(module, function)
        if start is None:
            continue
        for node in module.below(function):
            if not isinstance(node, ast.Call) or node.lineno >= start:
                continue
            if (module.scope(node) is function and _asks_too_early(module, node)) or (
                module.scope(node) is function
                and _falls_back_to_zero(module, node)
                and any(
                    isinstance(n, ast.If | ast.IfExp) and node in module.below(n.test)
                    for n in module.above(node)
                )
            ):
                yield node


def _first_init(module: Module, function: ast.AST) -> int | None:
    """The line of the first call in a function's own body that forms the process group."""
    for node in module.below(function):
        if isinstance(node, ast.Call) and module.scope(node) is function:
            name = module.name(node.func)
            if name.endswith("init_process_group") or _inits(module, node):
                return node.lineno
    return None


@once
def _inits(module: Module, call: ast.Call, depth: int = 3) -> bool:
    """Whether a local function forms the process group."""
    return any(
        isinstance(inner, ast.Call)
        and (
            other.name(inner.func).endswith("init_process_group")
            or (depth > 0 and _inits(other, inner, depth - 1))
        )
        for other, function in module.callees(call)
        for inner in other.below(function)
    )


def _asks_too_early(module: Module, call: ast.Call) -> bool:
    """A local function that does something if there is no process group or the rank is 0."""
    return any(
        isinstance(node, ast.If)
        and matches(node.test, r"^not .*is_initialized\(\) or .*rank")
        and any(matches(s, r"prepare|download") for s in node.body)
        for other, function in module.callees(call)
        for node in other.below(function)
    )


def _falls_back_to_zero(module: Module, call: ast.Call) -> bool:
    """A local helper that answers 0, or "main", while there is no process group."""
    name = last_part(module.name(call.func))
    if not re.search(r"rank|main|master|primary", name, re.IGNORECASE):
        return False
    for other, function in module.callees(call):
        if re.search(r"is_initialized|is_dist_avail|is_available", source(function)):
            return True
        called = [n for n in other.below(function) if isinstance(n, ast.Call)]
        if any(_falls_back_to_zero(other, inner) for inner in called if inner is not call):
            return True
    return False


@rule(
    "D14",
    "the other ranks wait for this in a collective, and run into its timeout when it takes long",
    "prepare the data before init_process_group, or in a step of its own",
)
def long_work_before_barrier(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        function = module.function(call)
        last = last_part(name) or method_name(call)
        if not re.search(_PREPARES, last, re.IGNORECASE) or zero_guard(module, call) is None:
            continue
        scope: Function | ast.Module = function or module.tree
        barriers = [
            c
            for c in module.below(scope)
            if isinstance(c, ast.Call) and module.name(c.func).endswith("distributed.barrier")
        ]
        if any(c.lineno > call.lineno for c in barriers):
            yield call
