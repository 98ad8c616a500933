"""K5, K6: files that are whole, and not too many."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.callers import repeated
from ddpgen.checking.reading.expressions import (
    keyword,
    last_part,
    matches,
    method_name,
    receiver,
    source,
    strings,
)
from ddpgen.checking.reading.programs import Module, leads_to
from ddpgen.checking.reading.values import binding, follows, mentions
from ddpgen.checking.registry import rule

_MEASURED = r"eval|pred|metric|result|\.(cpu|detach|numpy)\(\)$"  # no run goes on from these
_TEMPORARY = r"tmp|temp|partial|buffer|stream|\bfile\b|open\("
_WRITES = r"(write|save)\w*(checkpoint|ckpt)|(checkpoint|ckpt)\w*\.(write|save)"
_ROTATES = r"_?(rotate|prune|clean_?up|delete|remove)\w*"
_RENAMES = re.compile(r"os\.(replace|rename)|\.(replace|rename)\(\w+\)|shutil\.move|atomic")


@rule(
    "K5",
    "a crash while this is written leaves half a file, over the last one or as the newest",
    "write to a temporary name, flush, and os.replace it",
)
def not_atomic(module: Module) -> Iterator[ast.AST]:
    program = module.program
    if not program.called("torch.load") and not program.says("torch.load"):
        return
    for call in module.called("torch.save"):
        path = keyword(call, "f", 1)
        measured = matches(keyword(call, "obj", 0), _MEASURED)
        path = _opened(module, path) if path is not None else None
        if path is None or measured or mentions(module, path, _TEMPORARY, 1):
            continue
        if _RENAMES.search(source(module.scope(call))) or _exports(module, call):
            continue
        fixed = follows(module, path, _fixed_name) and not _RENAMES.search(module.text)
        chosen = re.search(r"\.glob\(|listdir\(|scandir\(|iterdir\(", module.text)
        if (fixed or chosen) and (module.loop(call) or module.function(call)):
            yield call


def _opened(module: Module, file: ast.expr) -> ast.expr:
    """The path of a file that is open for writing: `with open(path, "wb") as file`."""
    found = binding(module, file) if isinstance(file, ast.Name) else None
    value = found.value if found and isinstance(found.statement, ast.withitem) else None
    if isinstance(value, ast.Call) and matches(value.func, r"^(io\.)?open$") and value.args:
        return value.args[0]
    return file


def _exports(module: Module, call: ast.Call) -> bool:
    """Whether only weights are written, and once: nothing goes on from that file."""
    value = keyword(call, "obj", 0)
    weights = value is not None and follows(module, value, _is_weights)
    return weights and not repeated(module, call)


def _is_weights(_: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        return method_name(node) == "state_dict" or None
    return None if isinstance(node, ast.Name) else False


def _fixed_name(_: Module, node: ast.expr) -> bool | ast.expr | None:
    """A file name that is the same for every save; names of final weights do not count."""
    if isinstance(node, ast.Name | ast.Attribute):
        return None
    joined = isinstance(node, ast.Call) and matches(node.func, r"\bjoin$") and node.args
    last = node.args[-1] if joined and isinstance(node, ast.Call) else None
    last = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else last
    if isinstance(last, ast.Name):
        return last
    varies = any(isinstance(n, ast.FormattedValue | ast.Mod) for n in ast.walk(node))
    varies = varies or matches(node, r"format\(|epoch|step|iter|time")
    texts = list(strings(node))[-1:]
    named = any(re.search(r"\.(pt|pth|ckpt|tar|bin|pth\.tar)$", text) for text in texts)
    return named and not varies and not matches(node, r"best|final|export")


@rule(
    "K5",
    "renamed to its own name: it was written in place, and a crash leaves half a file",
    "write to another name, then rename",
)
def renamed_to_itself(module: Module) -> Iterator[ast.AST]:
    for call in module.methods("replace", "rename"):
        of_os = module.name(call.func).startswith("os.")
        names = call.args if of_os else [receiver(call), *call.args]
        if len(names) == 2 and isinstance(names[0], ast.Name):
            found = binding(module, names[0])
            if found and isinstance(found.value, ast.Name):
                if source(found.value) == source(names[1]):
                    yield call


@rule(
    "K6",
    "this deletes nothing: the slice is empty",
    "leave out the newest ones: files[:-keep]",
)
def empty_slice(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        if isinstance(node, ast.For) and matches(node.iter, r"\[:-?0\]$"):
            if any(module.methods("unlink", "remove", "rmtree", below=node)):
                yield node.iter


@rule(
    "K6",
    "this deletes the newest ones, and keeps the oldest",
    "leave out the newest ones: files[:-keep]",
)
def newest_deleted(module: Module) -> Iterator[ast.AST]:
    for node in module.nodes:
        cut = node.iter if isinstance(node, ast.For) else None
        if not isinstance(cut, ast.Subscript) or not isinstance(cut.slice, ast.Slice):
            continue
        newest = isinstance(cut.slice.lower, ast.UnaryOp) and cut.slice.upper is None
        in_order = mentions(module, cut.value, r"sorted\(|\.sort\(")
        if newest and in_order and not mentions(module, cut.value, r"reverse=True|\[::-1\]"):
            if any(module.methods("unlink", "remove", "rmtree", below=node)):
                yield cut


@rule(
    "K6",
    "the old checkpoint is deleted before the new one is written: a failed write leaves none",
    "delete after the new file is complete",
)
def deleted_first(module: Module) -> Iterator[ast.AST]:
    for save in module.called("torch.save"):
        path = keyword(save, "f", 1)
        block = module.parents[module.statement(save)]
        if path is None or not hasattr(block, "body"):
            continue
        for call, name in module.calls:
            deletes = name in ("os.remove", "os.unlink") or method_name(call) == "unlink"
            if deletes and call in module.below(block) and call.lineno < save.lineno:
                target = call.args[0] if call.args and name else getattr(call.func, "value", None)
                if target is not None and (
                    source(target) == source(path)
                    or matches(target, r"last|old|prev|ckpt|checkpoint")
                ):
                    yield call


@rule(
    "K6",
    "old checkpoints are cleared away before the new one is written",
    "clear away after the new file is complete",
)
def rotated_first(module: Module) -> Iterator[ast.AST]:
    for call, _ in module.calls:
        if not isinstance(module.parents[call], ast.Expr) or not _clears_away(module, call):
            continue
        block = module.parents[module.statement(call)]
        later = (c for c in module.calls_below(block) if c.lineno > call.lineno)
        if any(module.parents[module.statement(c)] is block and _writes(module, c) for c in later):
            yield call


def _clears_away(module: Module, call: ast.Call) -> bool:
    """Whether a call deletes files that a run has written before."""
    if not re.fullmatch(_ROTATES, last_part(source(call.func))):
        return False
    if module.callees(call):
        return leads_to(module, call, _deletes, 3)
    return isinstance(call.func, ast.Name) or matches(call.func, r"checkpoint|ckpt")


def _deletes(module: Module, call: ast.Call) -> bool | None:
    of_files = module.name(call.func) in ("os.remove", "os.unlink", "shutil.rmtree")
    return of_files or method_name(call) == "unlink" or None


def _writes(module: Module, call: ast.Call) -> bool:
    """Whether a call writes a checkpoint, as its name or the function of the program shows."""
    named = re.search(_WRITES, module.name(call.func))
    return named is not None or leads_to(module, call, _saves, 3)


def _saves(module: Module, call: ast.Call) -> bool | None:
    return module.name(call.func) == "torch.save" or None
