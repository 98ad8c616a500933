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


def method_name(call: ast.Call) -> str:
    """The name of the method that is called, whatever it is called on; "" of a plain call."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def first_name(node: ast.AST) -> str:
    """The first part of a dotted name as it is written; "" for anything else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_part(name: str) -> str:
    """The last part of a dotted name."""
    return name.rpartition(".")[2]


def parameters(function: Function) -> list[ast.arg]:
    """The parameters that a caller can name."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def positional(function: Function) -> list[str]:
    """The names of the parameters that arguments by position are for."""
    names = [parameter.arg for parameter in function.args.args]
    return names[names[:1] == ["self"] :]


def names_in(*nodes: ast.AST) -> set[str]:
    """The plain names in expressions or statements."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def stored_in(*nodes: ast.AST) -> set[str]:
    """The plain names that statements set."""
    below = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in below if isinstance(n.ctx, ast.Store)}


def operands(node: ast.AST | None, operator: type[ast.operator]) -> list[ast.expr]:
    """The two sides of an operation; nothing of another one, or of no operation."""
    is_operation = isinstance(node, ast.BinOp) and isinstance(node.op, operator)
    return [node.left, node.right] if is_operation and isinstance(node, ast.BinOp) else []


def unpacks(call: ast.Call) -> bool:
    """Whether arguments come out of `*args` or `**options`, so that not all are visible."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(argument.arg is None for argument in call.keywords)


def constant(node: ast.AST | None) -> object:
    """The value of a literal; None for everything else."""
    return node.value if isinstance(node, ast.Constant) else None


def entries(node: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    """The keys and values of a dictionary that is written out; nothing of anything else."""
    if isinstance(node, ast.Dict):
        yield from zip(node.keys, node.values, strict=True)


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
