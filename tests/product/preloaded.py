"""Runs the tests of a project in a process that is forked, with torch and pytest imported already.

They are the project's own files and pytest's own command line; only imports are spared. A project's
tests start a fork server for their ranks: that one is forked too, before anything of the project is
imported, and becomes what a new Python would have become.
"""

import contextlib
import fcntl
import json
import multiprocessing
import os
import signal
import socket
import sys
import types
from collections.abc import Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import NamedTuple

from product import forkserver

TESTS = str(Path(__file__).parents[1])  # of ddpgen: a project's tests do not see them
HIGH = 1000  # numbers of files that nobody has


class Outcome(NamedTuple):
    """What a project's tests said: pytest's exit code, and all of its output."""

    code: int
    output: str


def run_tests(
    project: Path,
    arguments: Sequence[str],
    variables: Mapping[str, str] | None = None,
    path: Sequence[str] = (),
    seconds: float = 600,
    python: Path | None = None,
) -> Outcome:
    """`python -B -m pytest ARGUMENTS` in a project, with more folders to import from.

    What its tests start as `sys.executable` may be another `python`, such as a forked one.
    """
    log = project.with_name(f"{project.name}.log")
    log.write_text("")
    target = (project, arguments, variables or {}, path, log, python)
    process = forkserver.context().Process(target=_run, args=target)
    process.start()
    process.join(seconds)
    late = process.is_alive()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # ranks that were left, too
    process.join()
    output = log.read_text() + f"\nended after {seconds} s" * late
    return Outcome(process.exitcode or 0, output)


def _run(
    project: Path,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    path: Sequence[str],
    log: Path,
    python: Path | None,
) -> None:
    os.setsid()
    sys.executable = str(python or sys.executable)
    multiprocessing.set_executable(sys.executable)  # of what `spawn` starts
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.pop("PYTHONPATH", None)
    # Plugins of what else is installed here: projects need none, and to import them takes longer
    # than most of their tests.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.update(variables)
    os.chdir(project)
    inherited = [entry for entry in sys.path if not f"{entry}/".startswith(f"{TESTS}/")]
    sys.path[:] = [str(project), *path, *inherited]
    sys.dont_write_bytecode = True
    # What the tests spawn looks for the program that its parent was started as.
    sys.modules["__main__"] = types.ModuleType("__main__")
    _prepare_server()
    import pytest

    code = pytest.main([*arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _prepare_server() -> None:
    """Fork now what multiprocessing will start as its fork server, in place of a new Python."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        here.close()
        _become_server(there)
    there.close()
    start, unused = util.spawnv_passfds, [pid]

    def hand_over(program: bytes, arguments: Sequence[str], files: Sequence[int]) -> int:
        command = arguments[-1]
        if not unused or "multiprocessing.forkserver" not in str(command):
            return start(program, arguments, files)
        numbers = sorted({int(file) for file in files})
        text = {"command": command, "files": numbers, "environment": dict(os.environ)}
        socket.send_fds(here, [json.dumps(text).encode()], numbers)
        here.close()
        return unused.pop()

    util.spawnv_passfds = hand_over


def _become_server(orders: socket.socket) -> None:
    """Wait for the command that a new Python would have got, with its open files; obey it."""
    data, files, _, _ = socket.recv_fds(orders, 1 << 20, 16)
    if not data:
        os._exit(0)  # no test started ranks
    text = json.loads(data)
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, HIGH) for file in files]
    os.closerange(3, HIGH)
    for file, number in zip(moved, text["files"], strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(text["environment"])
    try:
        exec(text["command"], {"__name__": "__main__"})
    finally:
        os._exit(0)
