"""Does what a page says, in a folder and a shell of its own.

Three things are stood in for, because tests have neither a network nor a cluster: `python -m venv`
makes an environment that changes nothing, `pip install` looks whether what it should bring is
there, and `sbatch` checks the file where SLURM is not running. All else is real; what `python` is
told to run begins in a process that has imported torch (tests/forked).
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from docs.page import ROOT, Command, Edit, PageError, Step, change, missing

STAND_INS = Path(__file__).with_name("stand_ins")
END = "=== end of the command ==="


class Reader:
    """A shell in a folder, which keeps its folder and variables from command to command."""

    def __init__(self, folder: Path, forked: Path, seconds: float = 300) -> None:
        self.folder = folder
        self.deadline = time.monotonic() + seconds
        home = folder / "home"
        home.mkdir()
        roles = {
            f"GIT_{role}_{what}": "someone@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        inherited.pop("PYTHONPATH", None)
        path = [str(STAND_INS), str(forked), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={
                **inherited,
                **roles,
                "HOME": str(home),
                "PATH": os.pathsep.join(path),
                "REAL_PYTHON": sys.executable,
                "FORKED": str(forked),
                "DDPGEN_CHECKOUT": str(ROOT),
                "COLUMNS": "100",
                # Ranks that share the cores of a test machine would only disturb each other.
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the shell and all that it started."""
        if self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()

    def do(self, step: Step) -> None:
        """Do a step of a page; raises PageError where the page is wrong."""
        if isinstance(step, Edit):
            self.edit(step)
        else:
            self.check(step, *self.run(step.text))

    def check(self, command: Command, output: str, status: int) -> None:
        """Compare what a command did with what the page says."""
        where = f"line {command.line}: $ {command.text}\nexit code {status}, and this output:\n"
        if bool(status) != command.fails:
            raise PageError(where + output)
        if wanted := missing(command.expected, output):
            raise PageError(f"{where}{output}\nThe page promises the line:\n{wanted}")

    def edit(self, edit: Edit) -> None:
        """Write or change a file of the shell's current folder."""
        path = Path(self.run("pwd")[0].strip()) / edit.path
        try:
            text = (
                change(path.read_text(encoding="utf-8"), edit.text) if edit.is_diff else edit.text
            )
        except (OSError, PageError) as error:
            raise PageError(f"line {edit.line}: {edit.path}: {error}") from error
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, text: str) -> tuple[str, int]:
        """Run a command; returns its output and its exit code."""
        assert self.shell.stdin
        assert self.shell.stdout
        say_end = f"printf '\\n%s %s\\n' {shlex.quote(END)} $?"
        self.shell.stdin.write(f"{{ {text}\n}} </dev/null; {say_end}\n")
        self.shell.stdin.flush()
        lines: list[str] = []
        left = max(0.0, self.deadline - time.monotonic())
        timer = threading.Timer(left, os.killpg, (self.shell.pid, signal.SIGKILL))
        timer.start()
        try:
            for line in self.shell.stdout:
                if line.startswith(END):
                    return "".join(lines).removesuffix("\n"), int(line.removeprefix(END))
                lines.append(line)
        finally:
            timer.cancel()
        raise PageError(f"$ {text}\ndid not come to an end:\n{''.join(lines)}")
