"""Where all ranks meet before a process group exists, and who did not come.

A process group would not even begin where two hosts cannot talk, and would not say which.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from torch.distributed import DistStoreError
from torch.distributed.rendezvous import rendezvous

from engine import place

PATIENCE = 10.0  # seconds of waiting after which it is said for whom


class Rendezvous:
    """All ranks, at the store that the launcher serves, or rank 0."""

    def __init__(self, seconds: float) -> None:
        """Find the store; raises SystemExit where there is no way to it for so long."""
        self.rank, _, self.world_size = place.find()
        self.seconds = seconds
        if self.rank or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            find((address, port), seconds, f"rank {self.rank} on {socket.gethostname()}")
        # Rank 0 gives up first, and says why. As a world of one, it waits for nobody here.
        patient = timedelta(seconds=seconds + PATIENCE)
        self.store, _, _ = next(rendezvous("env://", self.rank, world_size=1, timeout=patient))

    def gather(self, name: str, value: Any) -> list[Any]:
        """The values of all ranks, in the order of ranks, on rank 0; the others get an empty list.

        A list of all for each of the ranks would be ranks^2 values. Values travel as JSON. Raises
        SystemExit on all ranks that came where one does not, and rank 0 names it.
        """
        self.store.set(f"preflight/{name}/{self.rank}", json.dumps(value))
        if self.rank:
            if not self.tell(f"{name}/all", None):
                self.leave(0)
                raise SystemExit(1)
            return []
        keys = [f"preflight/{name}/{rank}" for rank in range(self.world_size)]
        missing = self._missing(keys)
        self.tell(f"{name}/all", not missing)
        if missing:
            self.leave(self.world_size - len(missing))
            raise SystemExit(f"no sign of {named(missing)} within {self.seconds:.0f} s")
        return [json.loads(text) for text in self.store.multi_get(keys)]

    def tell(self, name: str, value: Any) -> Any:
        """The value of rank 0, on every rank that asks; its size must not grow with the ranks."""
        if self.rank == 0:
            self.store.set(f"preflight/{name}", json.dumps(value))
        return json.loads(self.store.get(f"preflight/{name}"))

    def is_first(self, name: str) -> bool:
        """Whether this rank is the first that asks for this name."""
        number: int = self.store.add(f"preflight/first/{name}", 1)
        return number == 1

    def _missing(self, keys: Sequence[str]) -> list[int]:
        """Wait for the ranks' keys; returns those that have not come in time."""
        first = min(PATIENCE, self.seconds)
        for seconds in filter(None, (first, self.seconds - first)):  # 0 would be for ever
            # The store waits: to look again and again would send all keys each time.
            with suppress(DistStoreError):
                self.store.wait(list(keys), timedelta(seconds=seconds))
                return []
            if seconds == first < self.seconds:
                print(f"waiting for {named(self._absent(keys))}", flush=True)
        return self._absent(keys)

    def _absent(self, keys: Sequence[str], first: int = 0) -> list[int]:
        """The ranks, counted from `first`, without a key: found by halves, as few are missing."""
        if self.store.check(list(keys)):
            return []
        if len(keys) == 1:
            return [first]
        half = len(keys) // 2
        return self._absent(keys[:half], first) + self._absent(keys[half:], first + half)

    def leave(self, present: int) -> None:
        """Say that this rank needs the store no more; rank 0, who may serve it, goes last."""
        left, end = self.store.add("preflight/left", 1), time.monotonic() + PATIENCE
        while self.rank == 0 and left < present and time.monotonic() < end:
            time.sleep(0.02)
            left = self.store.add("preflight/left", 0)


def find(address: tuple[str, int], seconds: float, who: str) -> None:
    """Wait until there is a way to the rendezvous, and say why there is none.

    Raises SystemExit after `seconds`. Each rank speaks for itself: no other rank can know.
    """
    start, said = time.monotonic(), False
    while True:
        try:
            socket.create_connection(address, PATIENCE).close()
            return
        except socket.gaierror:
            reason = f"{who} cannot resolve the name {address[0]}, at which all ranks meet"
        except OSError as error:
            reason = f"{who} finds no way to {address[0]} port {address[1]}: {why(error)}"
        waited = time.monotonic() - start
        if waited > seconds:
            raise SystemExit(reason)
        if waited > PATIENCE and not said:
            said = True
            print(f"{reason} (trying on)", file=sys.stderr, flush=True)
        time.sleep(0.2)


def why(error: OSError) -> str:
    """The error in words, without its number."""
    return error.strerror or str(error)


def spans(numbers: Iterable[int]) -> str:
    """Numbers in order, runs of them as from-to: 0-3, 5."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def named(ranks: Sequence[int]) -> str:
    """Such as: rank 3, or ranks 0-3, 5."""
    return f"rank{'s' if len(ranks) > 1 else ''} {spans(ranks)}"
