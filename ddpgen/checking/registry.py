"""The one table of rules: rows of the catalogue in docs/pitfalls.md, in each of their spellings."""

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

# A node or a line, with what the message should name, if it is not always the same.
Place = ast.AST | int
Hit = Place | tuple[Place, str]

# From the worst: a hang, a crash or wrong numbers; what costs or may go wrong; what reads badly.
ERROR, WARNING, STYLE = SEVERITIES = ("error", "warning", "style")
# Of rules that do not state their own; all others are errors.
_WARNINGS = re.compile("D(7|1[134])|S[268]|G([369]|13)|B3|K[2567]|O5|L[3457]")
_STYLE = re.compile("D(9|12)|B4|O[14]|L6")


@dataclass(frozen=True)
class Rule:
    """A mistake that can be seen in source.

    Attributes:
        id: its row in the catalogue; several rules may share one.
        why: one sentence for the message: what is wrong and what comes of it.
        remedy: one sentence: what to do instead.
        find: the places in a file.
        reads: "module" for a Python file of a distributed program, "script" for a launch file,
            "project" for a Python file of a project that ddpgen made.
        severity: one of SEVERITIES.
    """

    id: str
    why: str
    remedy: str
    find: Callable[[Any], Iterable[Hit]]
    reads: str
    severity: str


RULES: list[Rule] = []


def rule(
    id_: str, why: str, remedy: str, severity: str = "", reads: str = "module"
) -> Callable[[Callable[[Any], Iterable[Hit]]], Callable[[Any], Iterable[Hit]]]:
    """Enter the decorated function in the table."""
    warns, is_style = _WARNINGS.fullmatch(id_), _STYLE.fullmatch(id_)
    how_bad = severity or (WARNING if warns else STYLE if is_style else ERROR)

    def enter(find: Callable[[Any], Iterable[Hit]]) -> Callable[[Any], Iterable[Hit]]:
        RULES.append(Rule(id_, why, remedy, find, reads, how_bad))
        return find

    return enter
