"""What stands on the PATH as `python`: has the program run in a forked process, and is its place.

It hands its arguments, variables, folder and open files over (tests/forked/server.py), forwards
signals, and ends as the program ends. If it is killed, the program is. What is no script, module or
text of a program is left to the real Python. Few imports: it is started for each rank.
"""

import contextlib
import json
import os
import signal
import socket
import sys

FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
}
FLAGS = ("-B", "-u")


def main():
    """Hand over, wait, end likewise."""
    order, files = asked_for(), open_files()
    if not order["arguments"]:
        real = os.environ["REAL_PYTHON"]
        os.execv(real, [real, *sys.argv[2:]])
    ignored = {s for s in signal.valid_signals() if signal.getsignal(s) == signal.SIG_IGN}
    ignored -= {signal.SIGPIPE}  # by this Python itself
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until there is somebody to tell
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(os.environ["FORK_SERVER"])
    order |= {"files": files, "ignored": sorted(ignored), "process": os.getpid()}
    socket.send_fds(server, [json.dumps(order).encode()], files)
    program = int(server.recv(100))

    def forward(number, _frame):
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, number)

    for number in FORWARDED:  # the program may come to listen to what is ignored now
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    for number in files:
        os.close(number)  # who reads what the program says waits until nobody has them open
    end_like(int(server.recv(100) or "256"))  # exit code 1 where the server is gone


def asked_for():
    """What Python is told to do; no arguments where it does that itself."""
    me, *arguments = sys.argv[1:]
    flags = []
    while arguments and arguments[0] in FLAGS:
        flags.append(arguments.pop(0))
    kind = "script"
    if arguments[:1] in (["-m"], ["-c"]):
        kind = arguments.pop(0)
    if kind == "script" and not (arguments and os.path.isfile(arguments[0])):
        arguments = []
    return {
        "python": me,
        "flags": flags,
        "kind": kind,
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }


def open_files():
    """The numbers of all that this process was given."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            os.fstat(int(name))
            numbers.append(int(name))
    return sorted(numbers)


def end_like(status):
    """End with a program's status, by the same signal if that was one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


main()
