"""A program that is forked finds, says and leaves what it would in a new Python."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import os, sys
import __main__

print(__name__, __file__ == __main__.__file__, sys.argv, sys.path[0], os.getcwd(), os.getenv("A"))
print(sys.stdin.read(), os.fstat(int(sys.argv[1])).st_ino if len(sys.argv) > 1 else "")
sys.exit(3)
"""
COMMANDS = {
    "a script": ["told.py"],
    "a script in a folder": ["inside/told.py"],
    "a module": ["-m", "inside.told"],
    "a text": ["-c", "import sys; print(sys.argv, sys.path[0], __name__)", "a", "-m"],
    "flags": ["-B", "-u", "-c", "import sys; print(sys.dont_write_bytecode)"],
    "an error": ["wrong.py"],
    "an exit with words": ["-c", "raise SystemExit('bad')"],
    "Ctrl-C": ["-c", "raise KeyboardInterrupt"],
    "a signal": ["-c", "import os; os.kill(os.getpid(), 9)"],
    "a thread": ["-c", "import threading; threading.Timer(0.1, print, ['later']).start()"],
    "an exit handler": ["-c", "import atexit; atexit.register(print, 'last')"],
    "no such file": ["nowhere.py"],
    "nothing of that": ["--version"],
    "a program as text": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    for path in ("told.py", "inside/told.py"):
        (tmp_path / path).write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text("def f():\n    1 / 0\n\n\nf()\n")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_same_as_in_a_new_python(command: str, folder: Path, forked: Path) -> None:
    told = []
    for python in (sys.executable, str(forked / "python")):
        done = subprocess.run(
            [python, *COMMANDS[command]],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "A": "b", "PYTHONDONTWRITEBYTECODE": ""},
            input="print('read')",
            capture_output=True,
            text=True,
            check=False,
        )
        told.append((done.returncode, done.stdout, done.stderr))
    assert told[0] == told[1]


def test_open_files_keep_their_numbers(folder: Path, forked: Path) -> None:
    with (folder / "told.py").open() as file:
        number = file.fileno()
        command = [str(forked / "python"), "told.py", str(number)]
        done = subprocess.run(
            command, cwd=folder, pass_fds=[number], input=b"", stdout=subprocess.PIPE, check=False
        )
        assert done.stdout.split()[-1] == str(os.fstat(number).st_ino).encode()


LISTENS = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print("listens", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGUSR1, 7), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_signals_reach_it(number: signal.Signals, code: int, forked: Path) -> None:
    process = subprocess.Popen(
        ["bash", "-c", "trap '' USR1; exec \"$@\"", "-", str(forked / "python"), "-c", LISTENS],
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"listens\n"
    process.send_signal(number)
    assert process.stdout.read() == b""  # nobody has it open any more
    assert process.wait() == code


def test_what_it_starts_is_forked_too(forked: Path) -> None:
    """As sys.executable, and by multiprocessing: whoever has torch has not imported it."""
    text = "import sys; print('torch' in sys.modules, end='')"
    code = (
        "import subprocess, sys, multiprocessing as m\n"
        f"subprocess.run([sys.executable, '-c', {text!r}])\n"
        f"process = m.get_context('spawn').Process(target=exec, args=({text!r},))\n"
        "process.start()\nprocess.join()\n"
    )
    done = subprocess.run(
        [str(forked / "python"), "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "TrueTrue", done
