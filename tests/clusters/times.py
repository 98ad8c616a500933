"""When a job's log said what, and how long a job took from a mishap to its name and to a step."""

import re
import threading
import time
from collections.abc import Callable

# A launch file that starts again, SLURM, or the next start of a job whose script was lost.
NAMED = re.compile(r": requeued$|: starts again$|CANCELLED AT|^the start before, on ")
STEP = re.compile(r"(?:^|\] )step \d+/")


class Log:
    """The lines of a log that grows, with the time at which each was there."""

    def __init__(self, text: Callable[[], str]) -> None:
        """`text` gives all of the log so far."""
        self.text = text
        self.lines: list[tuple[float, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            for line in self.text().split("\n")[len(self.lines) : -1]:
                self.lines.append((time.monotonic(), line))
            time.sleep(0.2)

    def times(self, mishap: float) -> tuple[float, float]:
        """Seconds from a mishap until its reason was said, and until the next step after that."""
        named = self._first(NAMED, mishap)
        return named - mishap, self._first(STEP, named) - mishap

    def _first(self, words: re.Pattern[str], since: float) -> float:
        found = (at for at, line in [*self.lines] if at >= since and words.search(line))
        return next(found)
