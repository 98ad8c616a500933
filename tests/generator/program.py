"""Runs `ddpgen` as a user does: a process of its own, no terminal."""

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "ddpgen"]


def ddpgen(
    *arguments: str, cwd: Path, before: tuple[str, ...] = (), path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        arguments: the command line.
        cwd: where it runs.
        before: a program that starts it, with its arguments.
        path: PATH, if not the one of the tests.
    """
    return subprocess.run(
        [*before, *COMMAND, *arguments],
        cwd=cwd,
        env={**os.environ, **({"PATH": path} if path else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def everything(folder: Path) -> list[str]:
    """List all that is below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
