"""Expressions of Python by themselves: arguments of calls, literals, texts."""

import ast
import re
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def keyword(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value of an argument, given by name or by position."""
    for argument in call.keywords:
        if argument.arg == name:
            return argument.value
    if position is not None and 0 <= position < len(call.args):
        found = call.args[position]
        return None if isinstance(found, ast.Starred) else found
    return None


def receiver(call: ast.Call) -> ast.expr:
    """What a method is called on; of a plain call, what is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def unpacks(call: ast.Call) -> bool:
    """Whether arguments come out of `*args` or `**options`, so that not all are visible."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(argument.arg is None for argument in call.keywords)


def constant(node: ast.AST | None) -> object:
    """The value of a literal; None for everything else."""
    return node.value if isinstance(node, ast.Constant) else None


def strings(node: ast.AST) -> Iterator[str]:
    """All texts within an expression."""
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def source(node: ast.AST) -> str:
    """The text of an expression or statement, in one spelling."""
    known = vars(node)
    if "_source" not in known:
        known["_source"] = ast.unparse(node)
    return str(known["_source"])


def matches(node: ast.AST | None, pattern: str) -> bool:
    """Whether the source of an expression contains a pattern; the case does not count."""
    return node is not None and re.search(pattern, source(node), re.IGNORECASE) is not None
