"""K7: which checkpoint a run goes on from, where it looks for the newest."""

import ast
import re
from collections.abc import Iterator

from ddpgen.checking.reading.expressions import keyword, matches, source
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.values import follows, mentions, stands_for
from ddpgen.checking.registry import rule
from ddpgen.checking.rules.checkpoint import loads, saves
from ddpgen.checking.rules.resume import COUNTED

_FILES = r"\bi?glob\(|listdir\(|iterdir\("


@rule(
    "K7",
    "names are compared as texts: 900.pt is taken for newer than 1000.pt",
    "compare numbers, key=lambda path: int(path.stem), or write them with zeros: f'{step:08d}.pt'",
)
def newest_by_text(module: Module) -> Iterator[ast.AST]:
    paths = [(m, path) for m in module.program.modules for _, path in saves(m) if path]
    if not any(follows(m, path, _counts_without_zeros) for m, path in paths):
        return
    for node in module.nodes:
        if isinstance(node, ast.Subscript) and source(node.slice) == "-1":
            if follows(module, node.value, _sorted_files):
                yield node
        elif isinstance(node, ast.Call) and source(node.func) == "max" and len(node.args) == 1:
            if not node.keywords and mentions(module, node.args[0], _FILES):
                yield node


@rule(
    "K7",
    "files in the order of the file system: which is the newest differs from node to node",
    "sort the list: sorted(folder.glob(...))[-1]",
)
def newest_unsorted(module: Module) -> Iterator[ast.AST]:
    for node in _chosen(module):
        if source(node.slice) == "-1" and follows(module, node.value, _unsorted_files):
            yield node


@rule(
    "K7",
    "the first of the sorted files is the oldest: the run goes on from its beginning",
    "take the last one: sorted(folder.glob(...))[-1]",
)
def oldest(module: Module) -> Iterator[ast.AST]:
    for node in _chosen(module):
        if source(node.slice) == "0" and follows(module, node.value, _sorted_files):
            if not mentions(module, node.value, "reverse", 1):
                yield node


def _chosen(module: Module) -> Iterator[ast.Subscript]:
    """Elements of lists that are loaded as checkpoints."""
    for call in loads(module):
        for value in call.args[:1]:
            found = [v for m, v in stands_for(module, value) if m is module]
            for node in (value, *found):
                if isinstance(node, ast.Subscript):
                    yield node


def _unsorted_files(_: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        plain = source(node.func) == "list" and len(node.args) == 1
        return bool(re.search(_FILES, source(node))) and (plain or matches(node.func, "listdir$"))
    return None if isinstance(node, ast.Name | ast.Attribute) else False


def _counts_without_zeros(_: Module, node: ast.expr) -> bool | ast.expr | None:
    if isinstance(node, ast.JoinedStr):
        counted = [v for v in node.values if isinstance(v, ast.FormattedValue)]
        return any(not v.format_spec and re.search(COUNTED, source(v.value)) for v in counted)
    if isinstance(node, ast.BinOp):
        return node.right
    if isinstance(node, ast.Call) and matches(node.func, r"(join|Path)$") and node.args:
        return node.args[-1]
    return None


def _sorted_files(module: Module, node: ast.expr) -> bool | None:
    if isinstance(node, ast.Call):
        by_text = source(node.func) == "sorted" and keyword(node, "key") is None
        return by_text and bool(node.args) and mentions(module, node.args[0], _FILES)
    return None if isinstance(node, ast.Name | ast.Attribute) else False
