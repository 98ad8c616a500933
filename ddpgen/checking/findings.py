"""What is found, and what the reader should know about how."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """A mistake at its place; what findings are sorted by comes first.

    Lines and columns count from 1, columns in characters; the end is behind the last character.
    """

    path: Path
    line: int
    column: int
    id: str
    why: str
    remedy: str
    severity: str
    end_line: int
    end_column: int
    text: str  # the line, without the spaces around it


@dataclass
class Report:
    """All findings of a run.

    Attributes:
        findings: the mistakes, by file and line.
        notes: what was not checked, and why.
        files: how many files were checked.
        unreadable: how many could not be read as what they are.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    unreadable: int = 0
