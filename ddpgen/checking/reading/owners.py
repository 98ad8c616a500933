"""Whose method a call may mean, as far as a file tells which class an object is of."""

import ast
from collections.abc import Mapping

from ddpgen.checking.reading.expressions import Function, last_part, source
from ddpgen.checking.reading.source import Source


def may_be_own(file: Source, node: ast.AST, owner: ast.AST, name: str) -> bool:
    """Whether `self.NAME` may be that of a class: where its own class has one, nobody else's is."""
    around = next((above for above in file.above(node) if isinstance(above, ast.ClassDef)), None)
    if around is None or owner is around or not isinstance(owner, ast.ClassDef):
        return True
    names = {inner.name for inner in around.body if isinstance(inner, Function)}
    return name not in names or around.name in map(last_part, map(source, owner.bases))


def made_elsewhere(
    file: Source, node: ast.Attribute, owner: ast.AST, methods: Mapping[str, set[str]]
) -> bool:
    """Whether the object of `x.NAME` is made of other classes, which have a NAME themselves.

    Args:
        file: where the call is.
        node: what is called.
        owner: the class whose method may be meant.
        methods: the methods that each class of the program has itself.
    """
    made = file.made.get(source(node.value), set())
    other = isinstance(owner, ast.ClassDef) and owner.name not in made
    return bool(made) and other and all(node.attr in methods.get(name, ()) for name in made)
