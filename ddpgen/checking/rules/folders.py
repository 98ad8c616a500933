"""O1, O5: files of a run, and the folder that they are in."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import on_ranks
from ddpgen.checking.reading.conditions import conditions
from ddpgen.checking.reading.expressions import (
    constant,
    keyword,
    matches,
    method_name,
    receiver,
    source,
    unpacks,
)
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import ERROR, WARNING, rule
from ddpgen.checking.rules.output import in_training

_CLOCK = r"strftime|datetime\.(now|today)|time\.time(_ns)?\(\)"
_AGREED = r"broadcast_object_list|broadcast\w*\([^)]*(dir|folder|path|name|stamp|time|run)"
_PLACES = r"dir|folder|path|run_?name|run_?id|log_|output|exp_?name"
_LOOKS = r"\.iterdir\(|listdir\(|scandir\(|glob\("
# What makes a name one of this rank alone.
_OWN = r"rank|te?mp|getpid|uuid|hostname|/dev/|proc"
_MAKES = r"mkdir\(|makedirs\("
_COUNTS = r"max\(|len\(|\+ 1|count\(|next\(|range\("
_LOGS = r"log|write|history|metric|record|^(main|train|fit|run)"


@rule(
    "O1",
    "every rank writes these lines into the same file",
    "write on rank 0 only",
    severity=WARNING,
)
def every_rank_writes(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        method = method_name(call) == "open"
        mode = constant(keyword(call, "mode", 0 if method else 1))
        if (name == "open" or method) and mode == "a":
            function = module.function(call)
            logs = function is None or re.search(_LOGS, function.name)
            if logs and not matches(call, "rank") and in_training(module, call):
                yield call


@rule(
    "O1",
    "every rank writes this file, over each other",
    "write on rank 0 only, or a file for each rank",
    severity=WARNING,
)
def every_rank_overwrites(module: Module) -> Iterator[ast.AST]:
    for call, name in module.calls:
        method = method_name(call) == "open" and name.partition(".")[0] not in module.imports
        mode = constant(keyword(call, "mode", 0 if method else 1))
        path = receiver(call) if method else keyword(call, "file", 0)
        if name == "open" or method:
            if isinstance(mode, str) and re.fullmatch(r"[wx][t+]*", mode) and path is not None:
                if not mentions(module, path, _OWN) and _among_ranks(module, call):
                    yield call


@rule(
    "O1",
    "every rank writes this file, over each other",
    "write on rank 0 only, or a file for each rank",
    severity=WARNING,
)
def every_rank_overwrites_whole(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("write_text", "write_bytes"):
        if not mentions(module, receiver(call), _OWN) and _among_ranks(module, call):
            yield call


def _among_ranks(module: Module, node: ast.AST) -> bool:
    """Whether every rank comes here in any case, in a function that deals with ranks."""
    deals = re.search(r"init_process_group|get_rank\(|DDP|Parallel\(", source(module.scope(node)))
    in_any_case = not any(conditions(module, node))
    return deals is not None and in_any_case and _by_every_rank(module, node)


@rule(
    "O5",
    "every rank makes this folder: all but the first end with FileExistsError",
    "pass exist_ok=True",
    severity=ERROR,
)
def made_by_every_rank(module: Module) -> Iterator[ast.AST]:
    yield from (call for call, asked in _made(module) if not asked)


@rule(
    "O5",
    "ranks that ask at the same time make this folder twice, and the second one ends with an error",
    "do not ask whether the folder exists, and pass exist_ok=True",
)
def made_after_asking(module: Module) -> Iterator[ast.AST]:
    yield from (call for call, asked in _made(module) if asked)


def _made(module: Module) -> Iterator[tuple[ast.Call, bool]]:
    """Where every rank makes one folder, which must not exist; and whether it asks before."""
    for call in module.methods("mkdir", "makedirs"):
        of_os = module.name(call.func).startswith("os.")
        path = keyword(call, "name", 0) or keyword(call, "path") if of_os else receiver(call)
        if path is None or unpacks(call) or keyword(call, "exist_ok", 2) is not None:
            continue
        if not of_os and not mentions(module, path, r"\bPath\(", 2):
            continue
        tried = any(isinstance(a, ast.Try | ast.With) for a in module.above(call))
        chosen = matches(module.scope(call), _LOOKS) or module.loop(call)
        if not tried and not chosen and not mentions(module, path, rf"{_OWN}|{_CLOCK}"):
            if _by_every_rank(module, call):
                tests = [test for test, _ in conditions(module, call)]
                yield call, any(matches(test, r"exists|isdir|is_dir") for test in tests)


def _by_every_rank(module: Module, node: ast.AST) -> bool:
    return on_ranks(module, node) and not guarded(module, node)


@rule(
    "O5",
    "each rank reads its own clock, so that a run gets several folders",
    "choose the name on rank 0 and broadcast it, or take it from the launcher",
)
def folder_by_clock(module: Module) -> Iterator[ast.AST]:
    if module.says(_AGREED):
        return
    for node in module.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if matches(target, _PLACES) and mentions(module, node.value, _CLOCK, 2):
                own = mentions(module, node.value, "rank", 2)
                if _is_text(node.value) and not own and not guarded(module, node):
                    yield node
    for call in module.called("os.makedirs", "os.mkdir", "SummaryWriter"):
        path = keyword(call, "name", 0) or keyword(call, "log_dir")
        if path is not None and matches(path, _CLOCK) and not guarded(module, call):
            yield call


@rule(
    "O5",
    "each rank reads its own clock, so that the shares of one step are in several folders",
    "choose the name on rank 0 and broadcast it, or take it from the launcher",
    severity=ERROR,
)
def shares_by_clock(module: Module) -> Iterator[ast.AST]:
    for call in module.called("torch.distributed.checkpoint.save"):
        path = keyword(call, "checkpoint_id")
        if path is not None and mentions(module, path, _CLOCK, 3):
            yield path


def _is_text(node: ast.expr) -> bool:
    """A name made of something, rather than a measured time."""
    return isinstance(node, ast.JoinedStr | ast.Call) or (
        isinstance(node, ast.BinOp)
        and not isinstance(node.op, ast.Sub)
        and constant(node.right) != 0
    )


@rule(
    "O5",
    "each rank looks for a free number by itself, so that a run gets several folders",
    "choose the folder on rank 0 and broadcast it",
)
def folder_by_number(module: Module) -> Iterator[ast.AST]:
    for function in module.all_functions:
        text = source(function)
        if all(re.search(p, text) for p in (_LOOKS, _MAKES, _COUNTS)) and "rank" not in text:
            makes = (c for c in module.calls_below(function) if re.search(_MAKES, source(c)))
            new = (c for c in makes if constant(keyword(c, "exist_ok")) is not True)
            yield from [c for c in new if not guarded(module, c)][:1]


@rule(
    "O5",
    "each rank takes the first number that is free, so that a run gets several folders",
    "take the number on rank 0 and broadcast it",
)
def folder_by_trying(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("mkdir", "makedirs"):
        loop = module.loop(call)
        counts = isinstance(loop, ast.For) and matches(loop.iter, r"\b(range|count)\(")
        tried = any(_passes_over(above) for above in module.above(call))
        if counts and tried and constant(keyword(call, "exist_ok")) is not True:
            if not guarded(module, call):
                yield call


def _passes_over(node: ast.AST) -> bool:
    """Whether a folder that exists is no error within a statement."""
    if isinstance(node, ast.With):
        return any(matches(i.context_expr, r"suppress\(.*FileExistsError") for i in node.items)
    handlers = node.handlers if isinstance(node, ast.Try) else []
    return any(matches(handler.type, "FileExistsError") for handler in handlers)
