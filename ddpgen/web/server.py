"""Serves the page on this machine, to its user alone.

Any program of this machine may connect, and any page in the browser may send requests here. So the
address holds a token, foreign Host and Origin headers are refused, and nothing but the page and its
calls is answered: no file of the disk is served, and none is written.
"""

import secrets
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from ddpgen.errors import DdpgenError
from ddpgen.web import catalogue, interface

HOST = "127.0.0.1"
MOST = 1_000_000  # bytes of a call
PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def serve(port: int, *, browser: bool) -> int:
    """Serve the page until Ctrl-C; return the exit code.

    Args:
        port: the port, or 0 for a free one.
        browser: whether to open the page in the user's browser.

    Raises:
        DdpgenError: the port is taken, or is none.
    """
    try:
        server = Server(interface.start(), port)
    except (OSError, OverflowError) as error:
        raise DdpgenError(f"cannot be listened on: {error}", option="--port", value=port) from error
    with server:
        print(f"{server.address}\nCtrl-C ends it.", flush=True)
        if browser:
            webbrowser.open(server.address)
        Thread(target=lambda: list(server.interface.prepared()), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


class Server(ThreadingHTTPServer):
    """The page and its calls, below a folder that only its user knows."""

    daemon_threads = True

    def __init__(self, page: interface.Interface, port: int = 0) -> None:
        self.interface = page
        self.token = secrets.token_urlsafe(16)
        self.files = {path.name: path.read_bytes() for path in PAGE.iterdir() if path.is_file()}
        self.files[catalogue.FILE] = catalogue.page().encode()
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone away; anything else is a mistake of this file."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def origins(self) -> list[str]:
        """How browsers may call this server."""
        return [f"http://{host}:{self.server_port}" for host in (HOST, "localhost")]

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"{self.origins[0]}/{self.token}/"


class _RefusedError(Exception):
    """The request is not answered, with this status."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = -1  # head and content in one packet: else the kernel waits 40 ms between them
    server_version = "ddpgen"
    sys_version = ""

    def do_GET(self) -> None:
        """Send a file of the page."""
        self._answer(self._page)

    def do_POST(self) -> None:
        """Answer a call of the page."""
        self._answer(self._call)

    def log_message(self, *_: object) -> None:
        """Say nothing: the terminal is the user's."""

    def _answer(self, way: Callable[[str], tuple[str, bytes]]) -> None:
        try:
            kind, content = way(self._name())
        except _RefusedError as refused:
            self._send(refused.args[0], "text/plain; charset=utf-8", b"")
        else:
            self._send(HTTPStatus.OK, kind, content)

    def _name(self) -> str:
        """Return what is asked for, once the request may be answered."""
        own = self.server.origins
        if f"http://{self.headers.get('Host', '')}" not in own:
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
        if self.headers.get("Origin", own[0]) not in own:
            raise _RefusedError(HTTPStatus.FORBIDDEN)
        token, slash, name = self.path.removeprefix("/").partition("/")
        same = secrets.compare_digest(token.encode(), self.server.token.encode())
        if not (same and slash):
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return name

    def _page(self, name: str) -> tuple[str, bytes]:
        name = name or "index.html"
        if name not in self.server.files:
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        return TYPES[Path(name).suffix], self.server.files[name]

    def _call(self, name: str) -> tuple[str, bytes]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = self.rfile.read(int(length))
        # A form of another page could not say that it sends JSON.
        if name not in interface.CALLS or self.headers.get("Content-Type") != "application/json":
            raise _RefusedError(HTTPStatus.NOT_FOUND)
        try:
            reply = self.server.interface.call(name, body.decode())
        except (DdpgenError, ValueError, TypeError, KeyError) as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from error
        if isinstance(reply, bytes):
            return "application/zip", reply
        return "application/json", reply.encode()

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status != HTTPStatus.OK:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
