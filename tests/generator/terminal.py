"""A real pseudo-terminal with ddpgen in it, to type into and to read from."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
from pyte.screens import Char

ENTER, ESCAPE, CTRL_B, CTRL_C, CTRL_D = "\r", "\x1b", "\x02", "\x03", "\x04"
DOWN, UP, SPACE, BACKSPACE = "\x1b[B", "\x1b[A", " ", "\x7f"


class Terminal:
    """Runs `ddpgen ARGUMENTS` with a terminal as its only input and output."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        path: str = "/nonexistent",
        rows: int = 200,
        columns: int = 160,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # PATH decides what is detected.
        environment = {**os.environ, "TERM": "xterm", "PATH": path}
        self._screen = pyte.Screen(columns, rows)
        self._lines = [""] * rows
        # Programs ask a terminal where its cursor is; prompt_toolkit draws less until it knows.
        self._screen.write_process_input = self.type
        self._stream = pyte.ByteStream(self._screen)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddpgen", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        """End the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All that the screen shows."""
        # Drawn anew only where something was written: pyte measures the width of every character.
        for y in self._screen.dirty:
            self._lines[y] = self._line(y)
        self._screen.dirty.clear()
        return "\n".join(self._lines).rstrip()

    def _line(self, y: int) -> str:
        line = self._screen.buffer[y]
        last = max((x for x, char in line.items() if char.data != " "), default=-1)
        # The second half of a wide character has no text.
        return "".join(line[x].data for x in range(last + 1)).rstrip()

    def lines(self) -> list[list[Char]]:
        """The lines of the screen with their colours, without the empty ones at its end."""
        screen = self._screen
        lines = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
        last = max(y for y, line in enumerate(lines) if any(char.data.strip() for char in line))
        return lines[: last + 1]

    @property
    def prompt(self) -> str:
        """What the screen shows from the latest question on."""
        return self.text[self.text.rfind("\n? ") + 1 :]

    def expect(self, *texts: str, seconds: float = 60) -> str:
        """Wait until the current prompt shows all texts, and return it."""
        end = time.monotonic() + seconds
        while not all(text in self.prompt for text in texts):
            left = end - time.monotonic()
            assert left > 0, f"{texts} did not come; the screen shows:\n{self.text}"
            assert self.read(left), f"{texts} did not come before the end:\n{self.text}"
        return self.prompt

    def type(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            os.write(self._master, key.encode())

    def finish(self, seconds: float = 120) -> int:
        """Wait for the end and return the exit code."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.read(left):
            pass
        return self.process.wait(max(1, end - time.monotonic()))

    def read(self, seconds: float) -> bool:
        """Show what the program writes next, waiting so long for it; False at its end."""
        if not select.select([self._master], [], [], max(0, seconds))[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux reports the end of a terminal's session as an I/O error
            return False
        self._stream.feed(data)
        return bool(data)
