"""Puts the imports of a Python file in order after some modules have moved to one package."""

from collections.abc import Collection, Iterable, Sequence
from typing import cast

import libcst as cst
from libcst import helpers

_Line = cst.SimpleStatementLine
_Statement = _Line | cst.BaseCompoundStatement


def ordered(body: Sequence[_Statement], moved: Collection[str]) -> list[_Statement]:
    """Return a file's statements with its blocks of imports in a formatter's order.

    Args:
        body: the statements.
        moved: the new names of modules. Blocks without any of them stay as they are.
    """
    statements: list[_Statement] = []
    block: list[_Line] = []
    for node in body:
        line = _as_import(node)
        if block and not (line and not line.leading_lines):
            statements += _in_order(block, moved)
            block = []
        if line:
            block.append(line)
        else:
            statements.append(node)
    return [*statements, *_in_order(block, moved)]


def _as_import(node: cst.CSTNode) -> _Line | None:
    """Return a line if it begins with an import."""
    is_import = isinstance(node, _Line) and isinstance(node.body[0], cst.Import | cst.ImportFrom)
    return cst.ensure_type(node, _Line) if is_import else None


def _in_order(block: Sequence[_Line], moved: Collection[str]) -> list[_Line]:
    """Put `from` behind `import`, and the modules that moved to one package into one line."""
    if not any(_is_moved(line, moved) for line in block) or any(len(ln.body) > 1 for ln in block):
        return [*block]
    lines = [line.with_changes(leading_lines=()) for line in block]
    plain = [line for line in lines if isinstance(line.body[0], cst.Import)]
    named: dict[str, _Line] = {}
    for line in lines:
        small = line.body[0]
        if isinstance(small, cst.ImportFrom):
            key = code(small).partition(" import ")[0]
            other = named.get(key)
            commented = _is_commented(line) or (other and _is_commented(other))
            if other and _is_moved(line, moved) and not commented:
                named[key] = _joined(other, small)
            else:
                named[code(small) if other else key] = line
    rest = [named[key] for key in sorted(named, key=str.lower)]
    first, *others = [*plain, *rest]
    return [first.with_changes(leading_lines=block[0].leading_lines), *others]


def _is_moved(line: _Line, moved: Collection[str]) -> bool:
    """Return whether a line is `from PACKAGE import MODULE` for a module that moved there."""
    small = line.body[0]
    if not isinstance(small, cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
        return False
    package = helpers.get_full_name_for_node(small.module) if small.module else None
    names = {f"{package}.{alias.evaluated_name}" for alias in small.names}
    return names <= {*moved} and not small.lpar


def _is_commented(line: _Line) -> bool:
    return line.trailing_whitespace.comment is not None


def _joined(line: _Line, more: cst.ImportFrom) -> _Line:
    """Return an import of everything that two import from one package."""
    small = cst.ensure_type(line.body[0], cst.ImportFrom)
    aliases = [
        *cast("Sequence[cst.ImportAlias]", small.names),
        *cast("Sequence[cst.ImportAlias]", more.names),
    ]
    unique = {code(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)): alias for alias in aliases}
    return line.with_changes(
        body=[small.with_changes(names=separated(unique[key] for key in sorted(unique)))]
    )


def separated(aliases: Iterable[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return the aliases with a comma between them and none at the end."""
    plain = [alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*(alias.with_changes(comma=comma) for alias in plain[:-1]), *plain[-1:]]


def code(node: cst.CSTNode) -> str:
    """Return the text of a part of a file."""
    return cst.Module([]).code_for_node(node)
