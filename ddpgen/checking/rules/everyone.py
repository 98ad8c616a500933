"""K1: changes of files that succeed once, and that every rank makes."""

import ast
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import constant, keyword, method_name, receiver, source
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import rule

_BY_NAME = ("os.symlink", "os.rename", "os.replace", "shutil.move")
_REMOVES = ("os.remove", "os.unlink", "os.rmdir", "shutil.rmtree")
# What makes a name one of this rank alone.
_OWN = r"rank|te?mp|getpid|uuid|hostname|/dev/|proc|worker"


@rule(
    "K1",
    "every rank does this to the same files: the first one succeeds, and the others find nothing",
    "let rank 0 of the job do this alone",
)
def done_by_every_rank(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls("init_process_group"):
        return
    for call, name in module.calls:
        if not _succeeds_once(call, name) or any(_may_fail(above) for above in module.above(call)):
            continue
        path = receiver(call) if name not in (*_BY_NAME, *_REMOVES) else call.args[0]
        if not mentions(module, path, _OWN) and on_ranks(module, call):
            if not guarded(module, call):
                yield call


def _succeeds_once(call: ast.Call, name: str) -> bool:
    """Whether a call fails where another rank has made the same call before."""
    if name in (*_BY_NAME, *_REMOVES):
        ignores = keyword(call, "ignore_errors", 1) if name == "shutil.rmtree" else None
        return bool(call.args) and constant(ignores) is not True
    if method_name(call) in ("symlink_to", "hardlink_to"):
        return True
    missing_ok = constant(keyword(call, "missing_ok", 0))
    return method_name(call) in ("unlink", "rmdir") and missing_ok is not True


def _may_fail(node: ast.AST) -> bool:
    """Whether an error ends nothing within a statement."""
    if isinstance(node, ast.With):
        return any("suppress(" in source(item.context_expr) for item in node.items)
    return isinstance(node, ast.Try) and bool(node.handlers)
