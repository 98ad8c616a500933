"""Makes mutants by syntax: one small change to one place of a program's text, over all places.

What only people read (docstrings, messages), types and imports are left alone, and so is what no
editor would miss: a name that is not there, an argument of another type.
"""

import ast
import builtins
import copy
from collections.abc import Iterator
from typing import NamedTuple

from mutants.names import Program, Scope, alike, called, modules, stored

NO_CONTEXT = '__import__("contextlib").nullcontext()'
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
# Of these a call may be left out, and an argument stay.
LEFT_OUT = {"min", "max", "int", "float", "bool", "abs", "round", "sorted", "set"}
MESSAGES = {"print", "say", "progress", "ConfigError", "RankError", "SystemExit"}


class Mutant(NamedTuple):
    """One change: what kind, on which lines, and the file's text with it."""

    kind: str
    path: str
    function: str
    lines: range  # of the statement that changes, in the text without the change
    before: str  # what is replaced, and by what, each in one line
    after: str
    text: str

    @property
    def name(self) -> str:
        """The same as long as the place says the same, wherever it moves to."""
        return f"{self.path} {self.function}: {self.before} -> {self.after}"


class Change(NamedTuple):
    """A node of the tree, and what stands there instead."""

    kind: str
    node: ast.AST
    new: str
    said: str = ""  # what is left out of the node, where that says enough


def mutants(path: str, text: str, program: Program) -> list[Mutant]:
    """All mutants of a file that still compile, each text once."""
    tree = ast.parse(text)
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[str, Mutant] = {}
    known = stored(tree) | frozenset(dir(builtins))
    everywhere = Scope(program, modules(tree), "", known, {})
    for statement, scope in _statements(tree, everywhere):
        for change in _changes(statement, scope):
            mutant = _applied(change, path, scope.function, statement, text.encode(), starts)
            if mutant.text != text and _compiles(mutant.text):
                found.setdefault(mutant.text, mutant)
    return list(found.values())


def _applied(
    change: Change, path: str, function: str, statement: ast.stmt, text: bytes, starts: list[int]
) -> Mutant:
    node = change.node
    assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    if change.kind == "decorator":
        begin = text.rindex(b"@", 0, begin)
    whole = (text[:begin] + change.new.encode() + text[end:]).decode()
    lines = range(statement.lineno, _head(statement) + 1)
    before = " ".join((change.said or text[begin:end].decode()).split())
    after = "" if change.said else " ".join(change.new.split())
    return Mutant(change.kind, path, function, lines, before, after, whole)


def _head(statement: ast.stmt) -> int:
    """The last line of a statement, without the statements inside it."""
    inside = [*getattr(statement, "body", []), *getattr(statement, "handlers", [])]
    first = min((part.lineno for part in inside), default=(statement.end_lineno or 0) + 1)
    return max(statement.lineno, first - 1)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _statements(parent: ast.AST, scope: Scope) -> Iterator[tuple[ast.stmt, Scope]]:
    """Every statement that runs, and where it is."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        for node in getattr(parent, field, []):
            if isinstance(node, ast.ExceptHandler):
                yield from _statements(node, scope)
            elif not _is_left_alone(node):
                yield node, scope.inside(node)
                yield from _statements(node, scope.inside(node))


def _is_left_alone(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
            return True
        case ast.If(test):
            return ast.unparse(test) in ("TYPE_CHECKING", "__name__ == '__main__'")
        case ast.AnnAssign(value=None):
            return True
        case ast.Assign(targets=[ast.Name(id)]):
            return id.endswith("Result") or id == "Settings"
        case _:
            return False


def _changes(statement: ast.stmt, scope: Scope) -> Iterator[Change]:
    yield from _dropped(statement)
    for expression in _own_expressions(statement):
        for node in _walk(expression):
            yield from _changed(node, scope)


def _dropped(statement: ast.stmt) -> Iterator[Change]:
    """The statement is not there, or half of it."""
    match statement:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield Change("statement", statement, "pass")
        case ast.Return(None) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield Change("statement", statement, "pass")
        case ast.FunctionDef(decorator_list=decorators):
            yield from (Change("decorator", decorator, "") for decorator in decorators)
        case ast.If(test) | ast.While(test):
            always = ["True"] if isinstance(statement, ast.If) else []
            for other in [f"not ({ast.unparse(test)})", "False", *always]:
                yield Change("condition", test, other)
        case ast.With(items=[item]) if item.optional_vars is None:
            yield Change("context manager", item.context_expr, NO_CONTEXT)
        case ast.Try(finalbody=[*finals], handlers=[*handlers]):
            for node in [*finals, *(handler.body[0] for handler in handlers)]:
                yield Change("clean-up", node, "pass" if node in finals else "raise")


def _own_expressions(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement itself, without types and inner statements."""
    match statement:
        case ast.If(test) | ast.While(test):
            return [test]
        case ast.For(iter=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
            return [value]
        case ast.AnnAssign(value=ast.expr() as value) | ast.Return(ast.expr() as value):
            return [value]
        case ast.Expr(value):
            return [value]
        case ast.With(items=items):
            return [item.context_expr for item in items]
        case ast.FunctionDef(args=arguments):
            return [*arguments.defaults, *(d for d in arguments.kw_defaults if d)]
        case _:
            return []


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """An expression and its parts, without what is only said."""
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and called(node) in MESSAGES:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _changed(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """All other things that an expression could be."""
    match node:
        case ast.Name(id, ast.Load()):
            yield from (Change("name", node, other) for other in sorted(scope.like(id)))
        case ast.Attribute(value, attr, ast.Load()):
            for other in sorted(scope.other_attributes(value, attr)):
                yield Change("name", node, f"{ast.unparse(value)}.{other}")
        case ast.Constant(value):
            yield from _constants(node, value)
        case ast.Compare() | ast.BinOp() | ast.UnaryOp():
            yield from _computed(node)
        case ast.BoolOp() | ast.IfExp() | ast.comprehension():
            yield from _decided(node)
        case ast.Call():
            yield from _calls(node, scope)
        case ast.Slice():
            yield from _slices(node)


def _computed(node: ast.expr) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[operator]):
            yield _with("comparison", node, ops=[COMPARED[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in COMPUTED:
            yield _with("computation", node, op=COMPUTED[type(operator)]())
        case ast.UnaryOp(operand=operand):
            yield Change("sign", node, f"({ast.unparse(operand)})")


def _decided(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            for choice in [_replaced(node, op=other), *values]:
                yield Change("condition", node, f"({ast.unparse(choice)})")
        case ast.IfExp(body=body, orelse=orelse):
            yield Change("condition", node, f"({ast.unparse(body)})")
            yield Change("condition", node, f"({ast.unparse(orelse)})")
        case ast.comprehension(ifs=tests):
            yield from (Change("condition", test, "True") for test in tests)


def _constants(node: ast.AST, value: object) -> Iterator[Change]:
    match value:
        case bool():
            yield Change("constant", node, str(not value))
        case int():
            yield Change("constant", node, str(value + 1))
            yield Change("constant", node, str(value - 1))
        case float():
            yield Change("constant", node, str(value * 2 or 1.0))
        case str():
            for other in sorted(alike(value)):
                yield Change("constant", node, repr(other))


def _calls(node: ast.Call, scope: Scope) -> Iterator[Change]:
    arguments, keywords = node.args, node.keywords
    match node.func:
        case ast.Attribute(value) if not scope.is_module(value):
            if not isinstance(value, ast.Constant):
                yield Change("call", node, ast.unparse(value))
    if isinstance(node.func, ast.Name) and node.func.id in LEFT_OUT:
        for argument in arguments:
            if not isinstance(argument, ast.GeneratorExp):
                yield Change("call", node, f"({ast.unparse(argument)})")
    for index in range(len(arguments) - 1):
        if scope.may_swap(node, index):
            pair = arguments[index : index + 2]
            swapped = [*arguments[:index], *reversed(pair), *arguments[index + 2 :]]
            yield _with("arguments", node, args=swapped)
    for keyword in keywords:
        if keyword.arg:
            others = [other for other in keywords if other is not keyword]
            left_out = f"{keyword.arg}={ast.unparse(keyword.value)}"
            yield _with("keyword", node, keywords=others)._replace(said=left_out)


def _slices(node: ast.Slice) -> Iterator[Change]:
    for field in ("lower", "upper"):
        if getattr(node, field) is not None:
            yield _with("slice", node, **{field: None})


def _replaced(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _with(kind: str, node: ast.AST, **fields: object) -> Change:
    """The node with other fields, in brackets where something may bind tighter around it."""
    text = ast.unparse(_replaced(node, **fields))
    return Change(kind, node, f"({text})" if isinstance(node, ast.BinOp | ast.Compare) else text)
