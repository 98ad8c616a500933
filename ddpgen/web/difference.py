"""What differs between two projects: file by file, and line by line."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile

from ddpgen.rendering.texts import File

SAME, ADDED, REMOVED, CHANGED = "same", "added", "removed", "changed"
KEPT, NEW, GONE = " ", "+", "-"


@dataclass(frozen=True)
class Difference:
    """How one file differs.

    Attributes:
        kind: `SAME`, `ADDED`, `REMOVED` or `CHANGED`.
        added: the number of lines that only the file after has.
        removed: the number of lines that only the file before has.
    """

    kind: str
    added: int = 0
    removed: int = 0


def compare(before: Mapping[str, File], after: Mapping[str, File]) -> dict[str, Difference]:
    """Return how each file of either project differs, in the order of their paths."""
    return {
        path: _compared(before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
    }


def _compared(before: File | None, after: File | None) -> Difference:
    if before == after:
        return Difference(SAME)
    marks = [mark for mark, _ in rows(before.text if before else "", after.text if after else "")]
    kind = ADDED if before is None else REMOVED if after is None else CHANGED
    return Difference(kind, marks.count(NEW), marks.count(GONE))


@lru_cache(maxsize=512)
def rows(before: str, after: str) -> tuple[tuple[str, str], ...]:
    """Return the lines of both texts, each with its mark: `KEPT`, `NEW` or `GONE`."""
    old, new = before.splitlines(), after.splitlines()
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    found = [(KEPT, line) for line in new[:head]]
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            found += [(KEPT, line) for line in middle_new[begin:end]]
        else:
            found += [(GONE, line) for line in middle_old[first:last]]
            found += [(NEW, line) for line in middle_new[begin:end]]
    return (*found, *((KEPT, line) for line in new[len(new) - tail :]))


def _common(one: list[str], other: list[str]) -> int:
    """Return how many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
