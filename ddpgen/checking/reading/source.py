"""Python files as the rules see them: names resolved through imports, and the way up the tree."""

import ast
import io
import re
import tokenize
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ddpgen.checking.reading.expressions import Function, last_part, method_name
from ddpgen.checking.reading.syntax import parsed, renamed

T = TypeVar("T", bound=ast.expr)


class Source:
    """One Python file by itself: its syntax tree, and the names of things in it."""

    def __init__(self, path: Path, text: str, names: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.lines = text.split("\n")
        tree = parsed(path, text)
        if names:
            tree, text = renamed(parsed.__wrapped__(path, text), text, names)
        self.text = text
        self.tree, self.nodes, self.parents, self._first, self._size = tree
        self.imports = dict(self._imports())
        self._names: dict[ast.AST, str] = {}
        self._said: dict[str | re.Pattern[str], bool] = {}

    def _imports(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    local = alias.asname or alias.name.partition(".")[0]
                    yield local, alias.name if alias.asname else local
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    yield alias.asname or alias.name, f"{module}.{alias.name}"

    @cached_property
    def imported_at_once(self) -> set[str]:
        """The modules that are imported with this one, rather than by a function when it runs."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import) and not self.function(node):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not self.function(node):
                found.add("." * node.level + (node.module or ""))
        return found

    @cached_property
    def imported(self) -> set[str]:
        """Every module that is imported, and every name from one, with leading dots if relative."""
        plain = (node for node in self.nodes if isinstance(node, ast.Import))
        return {alias.name for node in plain for alias in node.names} | set(self.imports.values())

    def name(self, node: ast.AST) -> str:
        """The dotted name of an expression, its first part as imported; "" for anything else."""
        if node not in self._names:
            self._names[node] = self._name(node)
        return self._names[node]

    def _name(self, node: ast.AST) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self.imports.get(node.id, node.id))
        return ".".join(reversed(parts))

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Every call with the dotted name of what is called."""
        return [(node, self.name(node.func)) for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def calls_by_name(self) -> dict[str, list[tuple[ast.Call, str]]]:
        """The calls by the last part of their names, or by the method's name."""
        found: dict[str, list[tuple[ast.Call, str]]] = defaultdict(list)
        for call, name in self.calls:
            found[last_part(name) or method_name(call)].append((call, name))
        return dict(found)

    def called(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these names: all of a dotted name, or its last parts."""
        for wanted in names:
            for call, name in self.calls_by_name.get(last_part(wanted), []):
                if name == wanted or name.endswith(f".{wanted}"):
                    yield call

    def methods(self, *names: str, below: ast.AST | None = None) -> Iterator[ast.Call]:
        """Calls of methods with these names, whatever they are called on."""
        return (call for call in self.calls_below(below or self.tree) if method_name(call) in names)

    def calls_below(self, *nodes: ast.AST) -> list[ast.Call]:
        """All calls in nodes, in the order of the text."""
        found: list[ast.Call] = []
        for node in nodes:
            first = self._first[node]
            begin = bisect_left(self._places_of_calls, first)
            end = bisect_left(self._places_of_calls, first + self._size[node])
            found += [call for call, _ in self.calls[begin:end]]
        return found

    @cached_property
    def _places_of_calls(self) -> list[int]:
        return [self._first[call] for call, _ in self.calls]

    def reads(self, name: str, below: ast.AST) -> list[ast.Name]:
        """Where a node reads a plain name."""
        found = (n for n in self.below(below) if isinstance(n, ast.Name) and n.id == name)
        return [n for n in found if isinstance(n.ctx, ast.Load)]

    @cached_property
    def references(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        """Every name and attribute, by its last part."""
        found: dict[str, list[ast.Name | ast.Attribute]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute):
                found[node.id if isinstance(node, ast.Name) else node.attr].append(node)
        return dict(found)

    def says(self, pattern: str | re.Pattern[str]) -> bool:
        """Whether the source contains a pattern; every rule asks for every module."""
        if pattern not in self._said:
            self._said[pattern] = re.search(pattern, self.text) is not None
        return self._said[pattern]

    def assignments(self, target: type[T]) -> Iterator[tuple[ast.Assign, T]]:
        """Every assignment to such an expression, with the expression."""
        for node in self._assignments.get(target, []):
            if isinstance(node.targets[0], target):
                yield node, node.targets[0]

    @cached_property
    def _assignments(self) -> dict[type[ast.expr], list[ast.Assign]]:
        """All of them (`ast.expr`), and those to each kind of target."""
        found: dict[type[ast.expr], list[ast.Assign]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for kind in (ast.expr, type(node.targets[0])):
                    found[kind].append(node)
        return dict(found)

    @cached_property
    def made(self) -> dict[str, set[str]]:
        """Text of a target -> the last parts of what is called for it; "" for other values."""
        found: dict[str, set[str]] = defaultdict(set)
        for node, target in self.assignments(ast.expr):
            called = self.name(node.value.func) if isinstance(node.value, ast.Call) else ""
            found[ast.unparse(target)].add(last_part(called))
        return dict(found)

    def below(self, node: ast.AST) -> list[ast.AST]:
        """A node and all nodes in it, in the order of the text."""
        first = self._first[node]
        return self.nodes[first : first + self._size[node]]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def way(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each node on the way up, with the one above it."""
        yield from zip((node, *self.above(node)), self.above(node), strict=False)

    def function(self, node: ast.AST) -> Function | None:
        """The function that a node is in."""
        return next((n for n in self.above(node) if isinstance(n, Function)), None)

    def scope(self, node: ast.AST) -> Function | ast.Module:
        """The function that a node is in, or the module."""
        return self.function(node) or self.tree

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node is in."""
        return next((n for n in self.above(node) if isinstance(n, ast.ClassDef)), None)

    def loop(self, node: ast.AST) -> ast.For | ast.While | None:
        """The innermost loop of the same function around a node."""
        for above in self.above(node):
            if isinstance(above, ast.For | ast.While):
                return above
            if isinstance(above, Function):
                return None
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        return next(n for n in (node, *self.above(node)) if isinstance(n, ast.stmt))

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """Functions and methods by name."""
        found = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, Function):
                found[node.name].append(node)
        return dict(found)

    @cached_property
    def all_functions(self) -> list[Function]:
        """All functions and methods, those of one name beside each other."""
        return [function for named in self.functions.values() for function in named]

    @cached_property
    def comments(self) -> dict[int, str]:
        """Line -> its comment."""
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(self.text).readline))
        except tokenize.TokenError:
            return {}
        return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}

    def commented(self, node: ast.AST) -> bool:
        """Whether a comment stands beside a node or on the line above it."""
        first = getattr(node, "lineno", 0)
        return any(line in self.comments for line in (first - 1, first))


def exclusive(file: Source, one: ast.AST, other: ast.AST) -> bool:
    """Whether two places are in different branches of a condition, so that never both run."""
    around = {above: child for child, above in file.way(one)}
    for child, above in file.way(other):
        if above in around:
            mine = around[above]
            return isinstance(above, ast.If) and (mine in above.body) != (child in above.body)
    return False
