"""O1, O5: files of a run, and the folder that they are in."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import constant, keyword, matches, method_name, source
from ddpgen.checking.reading.guards import guarded
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import mentions
from ddpgen.checking.registry import WARNING, rule
from ddpgen.checking.rules.output import in_training

_CLOCK = r"strftime|datetime\.(now|today)|time\.time(_ns)?\(\)"
_PLACES = r"dir|folder|path|run_?name|run_?id|log_|output|exp_?name"
_LOOKS = r"\.iterdir\(|listdir\(|scandir\(|glob\("
_MAKES = r"mkdir\(|makedirs\("
_COUNTS = r"max\(|len\(|\+ 1|count\(|next\(|range\("


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
            logs = function is None or re.search(r"log|write|history|metric|record", function.name)
            if logs and not matches(call, "rank") and in_training(module, call):
                yield call


@rule(
    "O5",
    "each rank reads its own clock, so that a run gets several folders",
    "choose the name on rank 0 and broadcast it, or take it from the launcher",
)
def folder_by_clock(module: Module) -> Iterator[ast.AST]:
    if "broadcast" in module.text:
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
