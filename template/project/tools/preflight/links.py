"""Examines hosts together: which reaches which, whose clock is off, whose folder is shared."""

import socket
import socketserver
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tools.preflight import rendezvous

LETTER = bytes(2**16)  # more than one packet: some paths lose large packets only
CLOCK = struct.Struct("!d")

Place = tuple[str, int]  # address and port


@dataclass(frozen=True)
class Links:
    """The view of one host on the others."""

    host: str
    broken: dict[str, str]  # host that it cannot talk to -> why
    ahead: float  # seconds that its clock is ahead of rank 0's host
    within: float  # seconds by which this may be wrong: half of a round trip


@dataclass(frozen=True)
class Answer:
    """The fate of a letter to another host."""

    problem: str  # empty if it was answered
    ahead: float = 0.0  # seconds that the other's clock is ahead
    within: float = 0.0


def survey(
    meet: rendezvous.Rendezvous, host: str, address: str, seconds: float = 5.0
) -> list[Links]:
    """Have one rank of each host write to all other hosts; rank 0 gets what they found.

    The addresses are those at which Gloo will wait, the ports free ones, as Gloo and NCCL use
    them: a firewall treats these letters like the training.
    """
    first = meet.tell("host", host)
    speaks = meet.is_first(host)
    with ExitStack() as until_all_have_asked:
        port = until_all_have_asked.enter_context(answering(address)) if speaks else 0
        announced = meet.gather("places", [host, address, port] if speaks else None)
        found = None
        if speaks or meet.rank == 0:
            listed = meet.tell("places", [place for place in announced if place])
            places = {name: (where, number) for name, where, number in listed}
            found = asdict(write_to_all(host, first, places, seconds)) if speaks else None
        links = [Links(**links) for links in meet.gather("links", found) if links]
        return sorted(links, key=lambda one: one.host != first)


def write_to_all(host: str, first: str, places: Mapping[str, Place], seconds: float) -> Links:
    """Write from this host to all others; the clock is compared with that of the `first`."""
    others = {name: place for name, place in places.items() if name != host}
    with ThreadPoolExecutor(32) as pool:
        found = pool.map(partial(write, seconds=seconds), others.values())
        answers = dict(zip(others, found, strict=True))
    for name, place in others.items():
        if place[0] == places[host][0]:
            answers[name] = Answer(f"both have the address {place[0]}")
    broken = {name: answer.problem for name, answer in answers.items() if answer.problem}
    clock = answers.get(first, Answer(""))
    return Links(host, broken, -clock.ahead, clock.within)


def write(place: Place, seconds: float) -> Answer:
    """Send a letter, read the same from there, and ask what time it is."""
    try:
        with socket.create_connection(place, seconds) as line:
            line.sendall(LETTER)
            read(line, len(LETTER))
            start = time.time()
            line.sendall(b"?")
            (theirs,) = CLOCK.unpack(read(line, CLOCK.size))
            within = (time.time() - start) / 2
    except OSError as error:
        return Answer(rendezvous.why(error))
    return Answer("", theirs - (start + within), within)


def read(line: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes."""
    found = b""
    while len(found) < size:
        piece = line.recv(size - len(found))
        if not piece:
            raise ConnectionError("closed without an answer")
        found += piece
    return found


class _Answers(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            self.request.sendall(read(self.request, len(LETTER)))
            read(self.request, 1)
            self.request.sendall(CLOCK.pack(time.time()))
        except OSError:
            return  # the other side tells of it


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1024  # all hosts may come at once

    def __init__(self, address: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), _Answers)


@contextmanager
def answering(address: str) -> Iterator[int]:
    """Answer letters at a free port of this address; gives the port."""
    with _Server(address) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def unshared(meet: rendezvous.Rendezvous, folder: Path, seconds: float = 10.0) -> list[str]:
    """For each rank why it does not see what rank 0 writes into the folder; rank 0 gets it."""
    mark, problem = folder / f".preflight-{uuid.uuid4().hex}", ""
    if meet.rank == 0:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            mark.write_text(mark.name)
        except OSError as error:
            problem = f"cannot be written: {rendezvous.why(error)}"
    name, problem = meet.tell("mark", [mark.name, problem])
    if not problem:
        problem = await_text(folder / name, name, seconds)
    problems: list[str] = meet.gather("marks", problem)
    if meet.rank == 0:
        with suppress(OSError):  # it was never there
            mark.unlink()
    return problems


def await_text(path: Path, text: str, seconds: float) -> str:
    """Why a file does not have the text, '' if it has; some file systems show it late."""
    end = time.monotonic() + seconds
    while True:
        try:
            if path.read_text() == text:
                return ""
            problem = "other content"
        except OSError as error:
            problem = rendezvous.why(error)
        if time.monotonic() > end:
            return problem
        time.sleep(0.1)
