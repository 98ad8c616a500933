"""A real Chromium, and `ddpgen web` as a user starts it."""

import http.client
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from generator.program import COMMAND, everything
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, with an empty profile for each of its contexts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


class Program:
    """`ddpgen web` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*COMMAND, "web", "--no-browser"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()
        _, _, self.host, self.token, _ = self.address.split("/")

    def ask(
        self, method: str, path: str, body: str | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """One request; an argument `Content_Type` is the header `Content-Type`."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host="Host" in sent)
        if body is not None:
            length = str(len(body))
            sent = {"Content-Type": "application/json", "Content-Length": length, **sent}
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body.encode() if body is not None else None)
        response = connection.getresponse()
        return response, response.read()

    def end(self) -> None:
        """Press Ctrl-C: nothing was written, and nothing went wrong."""
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, "")
        assert everything(self.folder) == []


@contextmanager
def served(folder: Path) -> Iterator[Program]:
    """A program that is ended as a user ends it."""
    program = Program(folder)
    try:
        yield program
        program.end()
    finally:
        program.process.kill()
