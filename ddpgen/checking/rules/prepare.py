"""D13, D14: what happens once, before the training."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    last_part,
    matches,
    method_name,
    source,
)
from ddpgen.checking.reading.guards import guarded, zero_guard
from ddpgen.checking.reading.programs import Module, leads_to
from ddpgen.checking.registry import ERROR, rule

_PREPARES = (
    r"^prepare(_data)?$|download|preprocess|tokenize|extract|prepare_data|"
    r"build_(vocab|dataset|index)|untar|unzip"
)

_FETCHES = (
    r"(^|\.)(urlretrieve|download_url(_to_file)?|download_and_extract_archive)$|"
    r"^(gdown|wget)\.download$"
)


@rule(
    "D13",
    "every rank downloads at once, into the same files",
    "download once per node, before the process group exists and under a lock",
)
def download_on_every_rank(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"FileLock\(|flock\("):
        return
    yield from (value for value in _downloads(module) if constant(value) is True)
    for call, name in module.calls:
        if re.search(_FETCHES, name) and on_ranks(module, call) and not guarded(module, call):
            yield call


@rule(
    "D13",
    "the others do not wait for the rank that downloads: they find half of the data, or nothing",
    "let them wait at a barrier before they read, or download under a lock",
)
def nobody_waits_for_download(module: Module) -> Iterator[ast.AST]:
    if module.program.says(r"FileLock\(|flock\(|barrier\(|wait_for_everyone\("):
        return
    by_rank = r"rank|local|main|master"
    yield from (value for value in _downloads(module) if matches(value, by_rank))


def _downloads(module: Module) -> Iterator[ast.expr]:
    """What calls are given as `download`, where all ranks make the call."""
    for call, _ in module.calls:
        download = keyword(call, "download")
        if download and not guarded(module, call):
            yield download


@rule(
    "D13",
    "the process group does not exist yet, so that every rank takes itself for rank 0",
    "ask after init_process_group, or read RANK from the environment",
    severity=ERROR,
)
def rank_before_group(module: Module) -> Iterator[ast.AST]:
    for function in [module.tree, *module.all_functions]:
        own = [call for call in module.calls_below(function) if module.scope(call) is function]
        start = next((c.lineno for c in own if leads_to(module, c, _inits, 4)), 0)
        for call in own:
            if call.lineno < start and (
                _asks_too_early(module, call)
                or (_decides(module, call) and _falls_back_to_zero(module, call))
            ):
                yield call


def _inits(module: Module, call: ast.Call) -> bool | None:
    """Whether a call forms the process group."""
    return module.name(call.func).endswith("init_process_group") or None


def _decides(module: Module, call: ast.Call) -> bool:
    """Whether a call is in a condition."""
    around = [n for n in module.above(call) if isinstance(n, ast.If | ast.IfExp)]
    return any(call in module.below(condition.test) for condition in around)


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
        called = (inner for inner in other.calls_below(function) if inner is not call)
        if any(_falls_back_to_zero(other, inner) for inner in called):
            return True
    return False


@rule(
    "D14",
    "the other ranks wait for this in a collective, and run into its timeout when it takes long",
    "prepare the data before init_process_group, or in a step of its own",
)
def long_work_before_barrier(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        last = last_part(name) or method_name(call)
        if not re.search(_PREPARES, last, re.IGNORECASE) or zero_guard(module, call) is None:
            continue
        after = (c for c in module.calls_below(module.scope(call)) if c.lineno > call.lineno)
        if any(module.name(c.func).endswith("distributed.barrier") for c in after):
            yield call
