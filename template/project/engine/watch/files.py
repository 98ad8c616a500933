"""Looks for the files STOP and SAVE in the run's folder: wishes of people who may not signal it."""

from contextlib import suppress

from engine import distributed, report
from engine.state import TrainState
from engine.watch.part import Part

NAMES = ("SAVE", "STOP")  # of two wishes at once the later one counts: STOP saves, too


class Files(Part):
    """At each log point rank 0 looks, and all ranks hear of what it has found.

    Not in each step: on a network's file system each look is a request, and to tell all ranks is a
    reduction for which the host waits.
    """

    def __init__(self, reporter: report.Reporter) -> None:
        self.reporter = reporter
        self.saves = False  # after this step
        self.ends = False  # after that save, for good

    def step(self, state: TrainState) -> None:
        """Set what is wished for after this step, on all ranks alike."""
        self.saves = False
        last = state.step == self.reporter.total_steps  # no file stays for the next start
        if not last and state.step % self.reporter.cfg.log.every_steps:
            return
        process = self.reporter.process
        found = self.take() if process.is_main else 0
        wish = int(distributed.max_over_ranks(found, process.device))
        self.saves, self.ends = wish > 0, wish == 2
        if wish:
            then = "saves and ends" if self.ends else "saves"
            self.reporter.say(f"step {state.step}  found {NAMES[wish - 1]}: the run {then}")

    def take(self) -> int:
        """The number of the wish, 0 for none. To take the file away says that it was heard."""
        found = 0
        for number, name in enumerate(NAMES, 1):
            with suppress(OSError):  # not there, or not to be removed, which would wish for ever
                (self.reporter.folder / name).unlink()
                found = number
        return found
