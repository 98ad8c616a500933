"""Says while the ranks wait: for whom, on which host, and where that rank is.

A collective may wait for ten minutes before its timeout says something. A thread of each rank wakes
now and then and looks whether the rank's step goes on; while it does, the thread does nothing.
"""

import json
import os
import re
import socket
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch._C._distributed_c10d import Store
from torch.distributed.elastic.utils.distributed import create_c10d_store

import config
from engine import distributed
from engine.state import TrainState
from engine.watch.part import Part

HERE = f"{Path(__file__).parents[2]}{os.sep}"
# Words of a place in which a rank waits for others, or for its device that waits for others.
WAITS = re.compile(
    r"^_ask, |\.(backward|wait|item|tolist|synchronize|get_scale|full_tensor)\("
    r"|all_reduce|broadcast|gather|over_ranks|consolidate"
)


class Report(NamedTuple):
    """A rank's report on itself while no step goes on."""

    step: int
    place: str


@dataclass
class Mark:
    """The last sign of the training, for the thread that looks at it."""

    step: int
    time: float  # of the monotonic clock


class Waiting(Part):
    """Has each rank tell where it is after `watch.patience_seconds` without a step.

    Rank 0 reads what was told, and says it; rank 1 does where rank 0 tells nothing. Each rank asks
    the launcher's store a few times, and only then.
    """

    def __init__(self, cfg: config.Watch, process: distributed.Process, state: TrainState) -> None:
        self.mark = Mark(state.step, time.monotonic())
        if process.world_size == 1:
            return
        over = threading.Event()
        look = Look(self.mark, process.rank, process.world_size, cfg.patience_seconds)
        look.store().set(look.key(process.rank, "host"), socket.gethostname())
        thread = threading.Thread(target=look.keep_on, args=(over,), daemon=True)
        thread.start()
        weakref.finalize(self, end, over, thread)

    def step(self, state: TrainState) -> None:
        """A step is done."""
        self.mark.step, self.mark.time = state.step, time.monotonic()


def end(over: threading.Event, thread: threading.Thread) -> None:
    """The run is over, and so is its thread."""
    over.set()
    thread.join(1)


@dataclass
class Look:
    """The thread's work. The thread holds no training, so that it ends with the run."""

    mark: Mark
    rank: int
    world_size: int
    patience: float  # seconds

    def keep_on(self, over: threading.Event) -> None:
        """Look twelve times in `patience` whether steps go on."""
        reported, told = False, -1
        while not over.wait(self.patience / 12):
            waited = time.monotonic() - self.mark.time
            try:
                if waited < self.patience:
                    if reported:
                        self.store().delete_key(self.key(self.rank))
                    reported = False
                elif not reported:
                    report = Report(self.mark.step, place())
                    self.store().set(self.key(self.rank), json.dumps(report))
                    reported = True
                elif told != self.mark.step and self.may_tell(waited):
                    told = self.mark.step
                    print(self.tell(waited), file=sys.stderr, flush=True)
            except RuntimeError as error:  # the store's host is gone: the launcher tells
                print(f"rank {self.rank}: nobody can be asked: {error}", file=sys.stderr)
                return

    def may_tell(self, waited: float) -> bool:
        """Whether all had the time to report, and no rank before this one is there to tell."""
        if self.rank > 1 or waited < self.patience * (7 / 6 + self.rank / 6):
            return False
        return self.rank == 0 or self.report(self.store(), 0) is None

    def tell(self, waited: float) -> str:
        """The ranks that keep the others waiting, and where they are."""
        store = self.store()
        ranks = range(self.world_size)
        hosts = {rank: store.get(self.key(rank, "host")).decode() for rank in ranks}
        told = {rank: self.report(store, rank) for rank in ranks}
        reports = {rank: report for rank, report in told.items() if report}
        return f"step {self.mark.step + 1}  {words(reports, hosts)} (after {waited:.0f} s)"

    def report(self, store: Store, rank: int) -> Report | None:
        """What a rank tells of the present step; None where it does not.

        All ranks meet in each step, and on GPUs a host may be three steps ahead of the rank that it
        waits for. So an older report is of a step that was slow: its rank cannot take it back.
        """
        if not store.check([self.key(rank)]):
            return None
        report = Report(*json.loads(store.get(self.key(rank))))
        return report if report.step > self.mark.step - 4 else None

    def store(self) -> Store:
        """The launcher's, by a connection of its own: nothing is kept while steps go on."""
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        found: Store = create_c10d_store(False, address, port, timeout=10, wait_for_workers=False)
        return found

    def key(self, rank: int, what: str = "place") -> str:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return f"waiting/{attempt}/{rank}/{what}"


def words(reports: Mapping[int, Report], hosts: Mapping[int, str]) -> str:
    """The ranks that are waited for, of those that have reported where they are and of the others.

    Not to report is to be stopped, killed or cut off. Else those are waited for that are steps
    behind, as hosts of GPUs go ahead, or do not wait themselves, or are elsewhere than most.
    """
    silent = [rank for rank in hosts if rank not in reports]
    usual = Counter(report.place for report in reports.values()).most_common(1)[0][0]
    if silent:
        gone = f"no sign of {named(silent, hosts)}: stopped, killed or cut off"
        return f"{gone}; others wait in {usual}"
    first = min(report.step for report in reports.values())
    for kind in (
        [rank for rank, report in reports.items() if report.step == first],
        [rank for rank, report in reports.items() if not WAITS.search(report.place)],
        [rank for rank, report in reports.items() if report.place != usual],
    ):
        if 0 < len(kind) < len(reports):
            rest = next(report.place for rank, report in reports.items() if rank not in kind)
            where = reports[kind[0]].place
            return f"waiting for {named(kind, hosts)} in {where}; others wait in {rest}"
    return f"no step is done: all ranks are in {usual}"


def named(ranks: list[int], hosts: Mapping[int, str]) -> str:
    """Ranks with their hosts, the first of many."""
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return ", ".join(f"rank {rank} on {hosts[rank]}" for rank in ranks[:4]) + more


def place() -> str:
    """The innermost line of this project that the main thread is in."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    frames = traceback.extract_stack(frame)
    own = [f for f in frames if f.filename.startswith(HERE) and "site-packages" not in f.filename]
    last = (own or frames)[-1]
    return f"{last.name}, {Path(last.filename).name}:{last.lineno}: {last.line}"
