"""K7, K15, K16: files that are written while something else goes on."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, keyword, matches, source
from ddpgen.checking.reading.guards import zero_guard
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.source import exclusive
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import ERROR, rule
from ddpgen.checking.rules.ranks import collectives, is_collective

_COPIES = r"deepcopy|\.clone\(|\.cpu\(|to\([^)]*cpu|snapshot\(|tolist"
_SAVES = r"save\w*$|write\w*(ckpt|checkpoint)$"


@rule(
    "K7",
    "rank 0 may still be writing this file: another rank reads half of it, or the one before",
    "let all ranks wait for rank 0 first: dist.barrier()",
    severity=ERROR,
)
def read_before_written(module: Module) -> Iterator[ast.AST]:
    for load in module.called("torch.load"):
        path = keyword(load, "f", 0)
        if path is None or zero_guard(module, load) is not None:
            continue
        for save in module.called("torch.save", "os.replace", "os.rename"):
            written = keyword(save, "f" if matches(save.func, "save") else "dst", 1)
            same = written is not None and source(written) == source(path)
            together = module.scope(save) is module.scope(load) and save.lineno < load.lineno
            if same and together and zero_guard(module, save) is not None:
                if not exclusive(module, save, load) and not _waits(module, save, load):
                    yield load
                    break


def _waits(module: Module, save: ast.Call, load: ast.Call) -> bool:
    """Whether ranks meet between two calls."""
    for call in module.calls_below(module.scope(save)):
        if save.lineno < call.lineno < load.lineno:
            inner = any(collectives(other, function) for other, function in module.callees(call))
            named = matches(call.func, r"barrier|sync|wait")
            if inner or named or is_collective(module, call):
                return True
    return False


def _threads(module: Module) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """Threads and tasks that save: the call that makes one, and what they are given."""
    for call in module.called("threading.Thread", "multiprocessing.Process"):
        target = keyword(call, "target", 1)
        if target is not None and matches(target, _SAVES):
            yield call, keyword(call, "args", 3)
    for call in module.methods("submit"):
        if len(call.args) > 1 and matches(call.args[0], _SAVES):
            yield call, call.args[1]


@rule(
    "K15",
    "training changes these weights while they are written: half of one step, half of the next",
    "give the thread a copy: {name: value.clone() for name, value in model.state_dict().items()}",
)
def written_while_changing(module: Module) -> Iterator[ast.AST]:
    for call, given in _threads(module):
        if given is not None and mentions(module, given, r"state_dict\(\)"):
            if not mentions(module, given, _COPIES):
                yield call


@rule(
    "K16",
    "a daemon's work ends with the program, in the middle of the last file",
    "leave daemon=True out, or join() the thread before the program ends",
)
def daemon_that_saves(module: Module) -> Iterator[ast.AST]:
    for call, _ in _threads(module):
        if constant(keyword(call, "daemon")) is True:
            if not module.says(r"\.join\((timeout\b|[\d.]*\))"):  # of a thread, not of texts
                yield call
