"""Says how a start begins: ranks, hosts, number, versions and commit. All ranks compare theirs."""

import hashlib
import json
import os
import platform
import socket
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import config
from engine import distributed, settings
from engine.watch import lease

MOST_NAMED = 4


def words(process: distributed.Process) -> str:
    """The first lines of a run, on rank 0. Every rank must call it, and sends one message."""
    process.store.set(f"start of rank {process.rank}", socket.gethostname())
    if not process.is_main:
        return ""
    keys = [f"start of rank {rank}" for rank in range(process.world_size)]
    hosts = Counter(name.decode() for name in process.store.multi_get(keys))
    named = [f"{host} x {ranks}" for host, ranks in hosts.items()]
    more = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
    return (
        f"start {lease.job()[1]} of the job: {counted(process.world_size, 'rank')} on "
        f"{counted(len(hosts), 'host')}: {', '.join(named[:MOST_NAMED] + more)}\n"
        f"python {platform.python_version()}, torch {torch.__version__}; "
        f"{commit(Path(__file__).parents[2])}"
    )


def agree(process: distributed.Process, cfg: config.Config, sizes: dict[str, int]) -> None:
    """Raise a RankError where this node has other values, data or programs than rank 0.

    Texts of the sections run and data name places, which are each node's own, and so are workers.
    """
    own: dict[str, Any] = {"torch": str(torch.__version__), **sizes}
    for name, value in settings.flat(cfg).items():
        place_of_node = isinstance(value, str) and name.startswith(("run.", "data."))
        if name != "data.workers" and not place_of_node:
            own[name] = value
    here = Path(__file__).parents[2]
    for path in filter(Path.is_file, (*here.glob("*.py"), *here.glob("engine/**/*.py"))):
        own[str(path.relative_to(here))] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    for name, value in json.loads(distributed.on_main(process, lambda: json.dumps(own))).items():
        if own.get(name, value) != value:
            raise settings.RankError(
                f"{name} is {own[name]} here, but {value} on rank 0: all ranks need the same "
                "config, data and programs"
            )


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def commit(project: Path) -> str:
    """The commit of a folder, and whether files differ from it, as far as git knows the folder."""
    if told := os.environ.get("PROJECT_COMMIT"):  # by a launch file: an image has no git
        return f"commit {told.replace('-dirty', ' and changes that are not committed')}"
    try:
        git(project, "ls-files", "--error-unmatch", "train.py")  # or the repository is another's
        number = git(project, "rev-parse", "HEAD")[:12]
        changed = git(project, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):  # no git, no repository, no answer
        return "no commit known"
    return f"commit {number}" + (" and changes that are not committed" if changed else "")


def git(project: Path, *command: str) -> str:
    """What git says of a project, for which git has some seconds."""
    words = ["git", "--no-optional-locks", "-C", str(project), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
