"""Syntax trees in fewer forms: what reads otherwise and means the same, and no dead branches."""

import ast
import copy
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_SHARED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


def simplified(text: str, path: Path) -> ast.Module:
    """The tree of a file's text. Raises SyntaxError."""
    tree = _without_dead_code(ast.parse(text, filename=str(path)))
    if re.search(r"^\s*match\s", text, re.MULTILINE):
        tree = _Choices().visit(tree)
    return tree


class _Choices(ast.NodeTransformer):
    """Has `match rank: case 0: ...` read as `if rank == 0: ...`, where cases are plain values."""

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = _equals(node.subject, case)
            if test is None:
                return node
            last = isinstance(test, ast.Constant)
            chosen = ast.If(test=test, body=case.body, orelse=chain)
            chain = case.body if last else [ast.copy_location(chosen, case.pattern)]
        return chain[0] if len(chain) == 1 else node


def _equals(subject: ast.expr, case: ast.match_case) -> ast.expr | None:
    """The condition of a case: True where it takes all that is left, None where it takes apart."""
    pattern = case.pattern
    test: ast.expr | None = None
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(copy.deepcopy(subject), [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        test = case.guard or ast.Constant(True)
    if test is None or (case.guard and isinstance(pattern, ast.MatchValue)):
        return None
    return ast.fix_missing_locations(ast.copy_location(test, pattern))


def _without_dead_code(tree: ast.Module) -> ast.Module:
    """Empty the branches of `if False` and `if True` that never run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):
            if node.test.value:
                node.orelse = []
            else:
                node.body = [ast.copy_location(ast.Pass(), node.body[0])]
    return tree


class Parsed(NamedTuple):
    """A syntax tree and its order. Nobody changes them."""

    tree: ast.Module
    nodes: list[ast.AST]
    parents: dict[ast.AST, ast.AST]
    first: dict[ast.AST, int]
    size: dict[ast.AST, int]


# A project is read as a program and as a project. Two files of equal text have nodes of their own.
@lru_cache(maxsize=128)
def parsed(path: Path, text: str) -> Parsed:
    """In the order of the text, unlike `ast.walk`; a stack, since trees may be deep."""
    tree = simplified(text, path)
    nodes: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    todo: list[ast.AST] = [tree]
    while todo:
        current = todo.pop()
        nodes.append(current)
        # The parser shares one object for every Load, Add and the like.
        children = [n for n in ast.iter_child_nodes(current) if not isinstance(n, _SHARED)]
        parents.update(dict.fromkeys(children, current))
        todo += reversed(children)
    first = {node: number for number, node in enumerate(nodes)}
    size = dict.fromkeys(nodes, 1)
    for child in reversed(nodes[1:]):
        size[parents[child]] += size[child]
    return Parsed(tree, nodes, parents, first, size)


_SETTINGS = ("args", "cfg", "conf", "config", "hparams", "opts", "options", "settings")


def renamed(tree: Parsed, text: str, names: Mapping[str, str]) -> tuple[Parsed, str]:
    """A tree that nobody else has, and its text, with other names for variables and attributes.

    Nodes keep their places in the text as it was; names of what is imported stay.
    """
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in tree.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    lines = text.split("\n")
    for node in sorted(tree.nodes, key=_behind, reverse=True):  # places before stay as they are
        for field in ("id", "arg", "attr"):
            old = getattr(node, field, None)
            new = names.get(old) if isinstance(old, str) else None
            if new is not None and not _is_foreign(node, imported):
                setattr(node, field, new)
                _write(lines, node, str(old), new)
    return tree, "\n".join(lines)


def _behind(node: ast.AST) -> tuple[int, int]:
    if isinstance(node, ast.Attribute):
        return node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr)
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _is_foreign(node: ast.AST, imported: set[str]) -> bool:
    """Whether a name is that of an imported module's part, or of a setting from outside."""
    base = node.value if isinstance(node, ast.Attribute) else None
    while isinstance(base, ast.Attribute | ast.Call | ast.Subscript):
        base = base.func if isinstance(base, ast.Call) else base.value
    return isinstance(base, ast.Name) and (base.id in imported or base.id in _SETTINGS)


def _write(lines: list[str], node: ast.AST, old: str, new: str) -> None:
    """Put a name into the text, where the text has it; within f-strings places are not known."""
    row, column = _behind(node)
    line = lines[row - 1].encode() if 0 < row <= len(lines) else b""
    if line[column : column + len(old.encode())] == old.encode():
        changed = line[:column] + new.encode() + line[column + len(old.encode()) :]
        lines[row - 1] = changed.decode()
