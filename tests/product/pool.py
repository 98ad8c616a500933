"""Trains generated programs in two processes that stay: a fraction of what new ones would take.

Two ranks (product/resident.py) run one program after the other. A program's files are its own and
are imported anew for each run, what it changes in its process is put back, and what it leaves there
is a failure. Ranks that failed, or did not end, are replaced.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch.distributed.elastic.utils.distributed import create_c10d_store

from product import forkserver, resident
from product.forkserver import Run
from product.resident import Answer, Job

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

    from torch.distributed import Store

START = 300.0  # seconds until a rank is there; a busy machine
GRACE = 3.0  # seconds that others have after a rank has failed


class Pool:
    """So many ranks; they start with the first program."""

    def __init__(self, ranks: int = 2, seconds: float = 180) -> None:
        self.ranks = ranks
        self.seconds = seconds  # a program may take; an idle machine needs under 1
        self.runs = 0
        self.before = ""  # what ran before, in the same processes
        self.cpu = 0.0  # seconds of all runs
        self.store: Store | None = None
        self.processes: list[ForkServerProcess] = []
        self.connections: list[Connection] = []

    def train(
        self,
        project: Path,
        ranks: int,
        overrides: Sequence[str],
        variables: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a project's train.py, as `forkserver.train` does; what is said is in output.txt."""
        assert ranks == self.ranks, f"a pool of {self.ranks} ranks"
        log = project / "output.txt"
        log.write_text("")
        if not self.processes:
            self._start()
        begin = time.monotonic()
        self.runs += 1
        job = Job(self.runs, project, overrides, variables or {})
        for connection in self.connections:
            connection.send(job)
        codes, problems = self._wait(begin + self.seconds)
        output = log.read_text() + "".join(problems)
        if any(codes):
            output += f"\nThese ranks had run {self.before or 'nothing'} before.\n"
            self.close()
        self.before = str(project)
        return Run(codes, output, time.monotonic() - begin)

    def close(self) -> None:
        """End the ranks."""
        for process in self.processes:
            process.kill()
            process.join()
        for connection in self.connections:
            connection.close()
        self.processes, self.connections, self.store, self.before = [], [], None, ""

    def _start(self) -> None:
        self.store = create_c10d_store(
            is_server=True, server_addr="127.0.0.1", server_port=0, wait_for_workers=False
        )
        for rank in range(self.ranks):
            here, there = multiprocessing.Pipe()
            variables = forkserver.variables_of(rank, self.ranks, self.store.port)
            process = forkserver.context().Process(target=resident.serve, args=(variables, there))
            process.start()
            there.close()
            self.processes.append(process)
            self.connections.append(here)
        for rank, connection in enumerate(self.connections):
            if connection.poll(START):  # else the first program will tell
                self._answer(rank)

    def _wait(self, deadline: float) -> tuple[list[int], list[str]]:
        """Until all ranks have answered, or one has failed and the others had time to say so.

        Returns their exit codes, as if they had been processes of their own, and tracebacks.
        """
        codes: dict[int, int] = {}
        problems = []
        while len(codes) < self.ranks and (rest := deadline - time.monotonic()) > 0:
            waiting = {c: rank for rank, c in enumerate(self.connections) if rank not in codes}
            for connection in multiprocessing.connection.wait(list(waiting), rest):
                rank = waiting[connection]
                answer = self._answer(rank)
                codes[rank] = int(bool(answer.problem))
                self.cpu += answer.seconds
                if answer.problem:
                    problems.append(f"--- rank {rank}\n{answer.problem}")
                    deadline = min(deadline, time.monotonic() + GRACE)
        for rank in set(range(self.ranks)) - codes.keys():
            codes[rank] = self._abort(rank)
        return [codes[rank] for rank in range(self.ranks)], problems

    def _answer(self, rank: int) -> Answer:
        try:
            answer: Answer = self.connections[rank].recv()
        except (EOFError, ConnectionResetError):
            self.processes[rank].join()
            answer = Answer(f"it ended, with exit code {self.processes[rank].exitcode}\n", 0.0)
        return answer

    def _abort(self, rank: int) -> int:
        """End a rank that hangs; it prints where."""
        process = self.processes[rank]
        os.kill(process.pid or 0, signal.SIGABRT)
        process.join(GRACE)
        process.kill()
        process.join()
        return process.exitcode or 0
