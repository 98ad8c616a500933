"""K1, O1: what every rank does to the same files, where one rank is enough."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    method_name,
    names_in,
    receiver,
    source,
    stored_in,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.output import in_training

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


@rule(
    "O1",
    "every rank writes into this file: each line comes as often as there are ranks",
    "let rank 0 write",
    severity=WARNING,
)
def written_by_every_rank(module: Module) -> Iterator[ast.AST]:
    if not module.program.calls("init_process_group"):
        return
    for call in module.called("open"):
        mode = str(constant(keyword(call, "mode", 1)))
        if not re.fullmatch("[aw]t?", mode) or not call.args or guarded(module, call):
            continue
        if not mentions(module, call.args[0], _OWN) and on_ranks(module, call):
            writes = module.methods("write", "writerow", "writelines")
            if any(_writes_to(module, inner, call) for inner in writes):
                yield call


def _writes_to(module: Module, write: ast.Call, opened: ast.Call) -> bool:
    """Whether a call writes a line of the training to a file."""
    statement = module.statement(opened)
    names = stored_in(*getattr(statement, "targets", []))
    if isinstance(statement, ast.With):
        names = {n for i in statement.items if i.optional_vars for n in names_in(i.optional_vars)}
    inside = module.scope(write) is module.scope(opened) and bool(names & names_in(write.func))
    return inside and in_training(module, write, 0)


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
