"""What versions of the template moved and renamed, as migrations.toml declares it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ddpgen.origin import order

TABLE = Path(__file__).with_name("migrations.toml")
# Folders in which a project's programs and tests look for modules.
_SEARCHED = ("tests/", "")


@dataclass(frozen=True)
class Migration:
    """The files that one version moved or renamed for one reason.

    Attributes:
        version: the version, without the `v` of its tag.
        reason: why, in words for users.
        moves: new paths of files by old ones.
        programs: modules to start, by the old paths of programs.
        merged: files that became part of another, by old path; only imports are rewritten.
        names: new names in the files of the template.
        exported: new names of what a user's own files import, by module and old name.
    """

    version: str
    reason: str
    moves: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[Mapping[str, Any]] = ()
    exported: Mapping[str, str] = field(default_factory=dict)


def table() -> list[Migration]:
    """Read the table, oldest version first."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["migration"]
    return sorted((Migration(**entry) for entry in entries), key=lambda m: order(m.version))


def between(since: str, to: str) -> list[Migration]:
    """Return what the versions after the tag `since` moved, up to the tag `to`.

    A working version has all entries: the last of them belong to the release that it becomes.
    """
    return [
        m
        for m in table()
        if order(since) < order(m.version) and ("+" in to or order(m.version) <= order(to))
    ]


def module(path: str) -> str:
    """Return the name under which a project imports a file."""
    folder = next(folder for folder in _SEARCHED if path.startswith(folder))
    return ".".join(PurePosixPath(path.removeprefix(folder)).with_suffix("").parts)
