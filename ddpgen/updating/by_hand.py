"""Answers that someone changed by hand, or that git merged: how the other files come to follow."""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ddpgen.asking import answer_files
from ddpgen.errors import DdpgenError
from ddpgen.origin import ANSWERS_FILE


class Git(Protocol):
    """Runs git in a project and returns what it prints, or raises a DdpgenError."""

    def __call__(self, *arguments: str) -> str:
        """Run git with these arguments."""


def remedy(git: Git, file: Path, checksum: str) -> str:
    """Return the commands that put back what ddpgen wrote, and then change the answers.

    Two branches that each changed an answer merge into answers that neither wrote. The commit that
    brought the checksum has the answers which the other files follow.

    Args:
        git: git in the project.
        file: the file of answers.
        checksum: what it says about itself.
    """
    name = file.name
    with suppress(DdpgenError):
        found = git("log", "--reverse", "--format=%h", f"-S{checksum}", "--", name).split()
        old = answer_files.parse_yaml(git("show", f"{found[0]}:./{name}")) if found else {}
        now = answer_files.parse_yaml(file.read_text(encoding="utf-8-sig"))
        wanted = [f"{key}={_text(value)}" for key, value in now.items() if old.get(key) != value]
        if old and old != now and name == ANSWERS_FILE:
            back = f"git checkout {found[0]} -- {name} && git commit -m 'Answers that files follow'"
            updated = [text for text in wanted if text.startswith("_")]
            answers = [text for text in wanted if text not in updated]
            flags = [part for text in answers for part in ("--data", text)]
            then = ["ddpgen", "update", *flags] if updated else ["ddpgen", "set", *answers]
            follow = f" && {shlex.join(then)}" if wanted else ""
            return f"first: cd {shlex.quote(str(file.parent))} && {back}{follow}"
    return "put the old answers back (git log -p says which), then use `ddpgen set`"


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
