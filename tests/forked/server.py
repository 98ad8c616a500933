"""Forks what `python` on the PATH of a test is asked to run (tests/forked/client.py).

The program finds what a new Python would have given it: arguments, variables, folder, open files,
namespaces of its host, `__main__`, `sys.path`. Spared are imports, and Python's own teardown. What
the program starts as `sys.executable`, such as ranks, is forked, too. Not shown is what only the
real command line, /proc and the process tree have: tests of these start Python as users do.
"""

import atexit
import contextlib
import ctypes
import fcntl
import json
import multiprocessing
import os
import random
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Iterator
from multiprocessing import process, resource_tracker
from pathlib import Path
from typing import Any, NoReturn

from product import forkserver

CLIENT = Path(__file__).with_name("client.py")
TESTS = str(Path(__file__).parents[1])  # of ddpgen: programs do not see them
HIGH = 1000  # numbers of files that nobody has
NAMESPACES = ("net", "uts", "mnt")
MAYBE_SET = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by who forks
MAIN = multiprocessing.current_process()  # as this file is imported, nobody's child


# What stands on the PATH; programs that are started anew start ranks that are forked.
COMMANDS = {
    "python": 'export FORK_SERVER={socket} REAL_PYTHON={real}\nexec {real} -IS {client} {me} "$@"',
    "pytest": 'exec {folder}/python {scripts}/pytest "$@"',
    "torchrun": 'export PYTHON_EXEC={folder}/python\nexec {scripts}/torchrun "$@"',
}


@contextlib.contextmanager
def server() -> Iterator[Path]:
    """A folder for the PATH, with a `python` that is forked."""
    with tempfile.TemporaryDirectory(prefix="forked-") as temporary:  # sockets have short names
        folder = Path(temporary)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"{folder}/socket")
        listener.listen(64)
        places = {"socket": folder / "socket", "real": sys.executable, "folder": folder}
        places |= {"client": CLIENT, "scripts": Path(sys.executable).parent}
        for name, text in COMMANDS.items():
            command = folder / name
            command.write_text(f"#!/usr/bin/env bash\n{text.format(me=command, **places)}\n")
            command.chmod(0o755)
        waiting = forkserver.context().Process(target=_serve, args=(listener,))
        waiting.start()
        listener.close()
        try:
            yield folder
        finally:
            waiting.kill()
            waiting.join()


def _serve(listener: socket.socket) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who watches a program ends by itself
    while True:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            _watch(connection)
        connection.close()


def _watch(connection: socket.socket) -> NoReturn:
    """Start a program, tell how it ends, and end it if nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, files, _, _ = socket.recv_fds(connection, 1 << 20, 200)
    order = json.loads(data)
    program = os.fork()
    if not program:
        os.setpgid(0, 0)
        connection.close()
        _become(order, files)
    with contextlib.suppress(OSError):
        os.setpgid(program, program)
    for file in files:
        os.close(file)
    connection.send(str(program).encode())
    ended = os.pidfd_open(program)
    if connection in select.select([connection, ended], [], [])[0]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _become(order: dict[str, Any], files: list[int]) -> NoReturn:
    """Be what a new Python would be, in the place of who asked for it."""
    _enter_namespaces(order["process"])
    _take_files(files, order["files"])
    for number in (*MAYBE_SET, *order["ignored"]):
        signal.signal(number, signal.SIG_IGN if number in order["ignored"] else signal.SIG_DFL)
    if signal.SIGINT not in order["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    # Plugins that are imported already would have to be rewritten: a warning.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    _forget_parents(order["python"])
    code = 1
    try:
        code = _run(order)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _enter_namespaces(pid: int) -> None:
    """Have the network, the name and the files of the host that the program was started on."""
    for name in NAMESPACES:
        theirs = Path(f"/proc/{pid}/ns/{name}")
        if theirs.readlink() != Path(f"/proc/self/ns/{name}").readlink():
            file = os.open(theirs, os.O_RDONLY)
            if ctypes.CDLL(None, use_errno=True).setns(file, 0):
                raise OSError(ctypes.get_errno(), str(theirs))
            os.close(file)


def _take_files(files: list[int], numbers: list[int]) -> None:
    """Have the files under the numbers that they had, and write to them anew."""
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, HIGH) for file in files]
    os.closerange(0, HIGH)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: Any = None
        if number in numbers:
            stream = os.fdopen(
                number,
                "r" if number == 0 else "w",
                buffering=1 if number == 2 else -1,
                encoding="utf-8",
                errors="backslashreplace" if number == 2 else "strict",
                closefd=False,
            )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _forget_parents(python: str) -> None:
    """Be nobody's child of multiprocessing, and start children by the same `python`."""
    process._current_process = MAIN
    process._parent_process = None
    process._children.clear()
    process.ORIGINAL_DIR = str(Path.cwd())
    resource_tracker._resource_tracker._fd = None
    resource_tracker._resource_tracker._pid = None
    sys.executable = python
    multiprocessing.set_executable(python)
    random.seed()
    sys.modules["numpy"].random.seed()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(f"{TESTS}/"):
            del sys.modules[name]


def _run(order: dict[str, Any]) -> int:
    """Run the program to the end of its threads; returns its exit code."""
    kind, (what, *arguments) = order["kind"], order["arguments"]
    variables = order["environment"]
    if "-u" in order["flags"] or variables.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    sys.dont_write_bytecode = "-B" in order["flags"] or "PYTHONDONTWRITEBYTECODE" in variables
    first = {"-m": str(Path.cwd()), "-c": ""}.get(kind, str(Path(what).absolute().parent))
    more = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    inherited = [path for path in sys.path if path and not f"{path}/".startswith(f"{TESTS}/")]
    sys.path[:] = [first, *more, *inherited]
    sys.argv = [{"-m": "-m", "-c": "-c"}.get(kind, what), *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    code = 0
    try:
        if kind == "-m":
            runpy._run_module_as_main(what)
        elif kind == "-c":
            exec(compile(what, "<string>", "exec"), vars(main))
        else:
            main.__file__ = str(Path(what).absolute())
            exec(compile(Path(what).read_bytes(), main.__file__, "exec"), vars(main))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt as error:
        traceback.print_exception(error.with_traceback(_below_this(error.__traceback__)))
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        code = 1
        error.__traceback__ = _below_this(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()
    atexit._run_exitfuncs()
    return code & 0xFF


def _below_this(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Without the lines of this file and of runpy, which a new Python would not have."""
    while trace and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace
