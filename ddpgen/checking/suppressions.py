"""Comments that silence a finding: `ddpgen: ignore[G3]` and a reason."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

NO_REASON = "X1"
NO_EFFECT = "X2"
ABOUT = {
    NO_REASON: (
        "this suppression gives no reason, so that nobody can tell whether it still holds",
        "write the reason behind the bracket",
    ),
    NO_EFFECT: (
        "this suppression silences nothing: the mistake is gone, or never was on this line",
        "remove it",
    ),
}
_FORM = re.compile(r"#\s*ddpgen:\s*ignore(?:\[([A-Z0-9,\s]*)\])?[\s:,-]*(.*)")


@dataclass
class Suppression:
    """One such comment.

    Attributes:
        line: where it stands.
        target: the line whose findings it silences: its own, or the next one if it is alone.
        ids: what it silences.
        reason: why, in the user's words.
        used: the ids that it did silence.
    """

    line: int
    target: int
    ids: list[str]
    reason: str
    used: set[str] = field(default_factory=set)


def find(comments: Mapping[int, str], lines: list[str]) -> Iterator[Suppression]:
    """The suppressions among the comments of a file."""
    for line, comment in comments.items():
        if found := _FORM.search(comment):
            alone = lines[line - 1].lstrip().startswith("#")
            target = line
            while alone and target <= len(lines) and lines[target - 1].lstrip().startswith("#"):
                target += 1
            ids = [name.strip() for name in (found[1] or "").split(",") if name.strip()]
            yield Suppression(line, target, ids, found[2].strip())
