"""What of a project's code is reached: from statements of modules and from tests, by names."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
BEGINS = ("test_", "main")  # of functions that pytest or a user starts


@dataclass
class Module:
    """The definitions of a file, each with the names in it, and the names of the rest."""

    defined: list[tuple[str, set[str]]] = field(default_factory=list)
    roots: set[str] = field(default_factory=set)


def unreached(files: Mapping[str, str]) -> list[str]:
    """Functions, classes, methods and constants of Python files that nothing comes to.

    A name stands for all that are called so. What only tests come to is not reached, either.
    """
    code = {path: text for path, text in files.items() if not path.startswith("tests/")}
    return sorted({*_unreached(code), *_unreached(files)})


def _unreached(files: Mapping[str, str]) -> Iterator[str]:
    modules = {path: module(text) for path, text in files.items()}
    live = set[str]().union(*(each.roots for each in modules.values()))
    waiting = [one for each in modules.values() for one in each.defined]
    while reached := [names for name, names in waiting if name in live]:
        waiting = [(name, names) for name, names in waiting if name not in live]
        live = live.union(*reached)
    for path, each in modules.items():
        yield from (f"{path}: {name}" for name, _ in each.defined if name not in live)


@cache
def module(text: str) -> Module:
    """What a file defines, and what its statements use."""
    found = Module()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            _add_class(node, found)
        elif isinstance(node, Definition):
            _add(node, found)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            found.roots |= _used(node)
    return found


def _add(node: Definition, found: Module) -> None:
    for name in _names(node):
        if name.startswith(BEGINS) or _is_for_all_tests(node):
            found.roots |= _used(node) | {name}
        else:
            found.defined.append((name, _used(node)))


def _add_class(node: ast.ClassDef, found: Module) -> None:
    """A class, and its methods apart from it: those of a library's class the library may call."""
    methods = [
        part
        for part in node.body
        if isinstance(part, ast.FunctionDef) and not node.bases and part.name[:2] != "__"
    ]
    rest = [*node.bases, *node.decorator_list, *(part for part in node.body if part not in methods)]
    found.defined.append((node.name, set[str]().union(*map(_used, rest))))
    for method in methods:
        _add(method, found)


def _names(node: Definition) -> Iterable[str]:
    """The names that a definition gives a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [part for target in targets for part in ast.walk(target)]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _is_for_all_tests(node: Definition) -> bool:
    """Whether a function is a fixture that no test names."""
    return any("autouse" in ast.unparse(one) for one in getattr(node, "decorator_list", []))


def _used(node: ast.AST) -> set[str]:
    """The names that are read in a node; parameters of tests name fixtures, and texts may name."""
    found = set[str]()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found.add(name)
            case ast.arg(arg=name):
                found.add(name)
            case ast.Constant(value=str(text)):
                found |= set(text.split(".")) if " " not in text else set()
    return found
