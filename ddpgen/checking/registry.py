"""The one table of rules: rows of the catalogue in docs/pitfalls.md, in each of their spellings."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# A node or a line, with what the message should name, if it is not always the same.
Place = ast.AST | int
Hit = Place | tuple[Place, str]


@dataclass(frozen=True)
class Rule:
    """A mistake that can be seen in source.

    Attributes:
        id: its row in the catalogue; several rules may share one.
        why: one sentence for the message: what is wrong and what comes of it.
        remedy: one sentence: what to do instead.
        find: the places in a file.
        reads: "module" for a Python file of a distributed program, "script" for a launch file.
    """

    id: str
    why: str
    remedy: str
    find: Callable[[Any], Iterable[Hit]]
    reads: str


RULES: list[Rule] = []


def rule(
    id_: str, why: str, remedy: str, reads: str = "module"
) -> Callable[[Callable[[Any], Iterable[Hit]]], Callable[[Any], Iterable[Hit]]]:
    """Enter the decorated function in the table."""

    def enter(find: Callable[[Any], Iterable[Hit]]) -> Callable[[Any], Iterable[Hit]]:
        RULES.append(Rule(id_, why, remedy, find, reads))
        return find

    return enter
