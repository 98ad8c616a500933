"""What a job's log says of its time: steps that count, and all the rest."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from goodput.faults import Happened
from goodput.lab import Job

OWN = re.compile(r"goodput ([\d.]+) % of")


@dataclass
class Result:
    """A job with its faults, and what became of its time."""

    happened: list[Happened]
    steps: list[tuple[float, int]]  # seconds since the begin, and the step that was done
    seconds: float  # from the launch to its end
    step_seconds: float  # the median
    updates: int  # that are in the weights at the end
    skipped: int  # steps that were skipped or gone back over
    own: float  # what the run itself says, a share
    spikes: list[str]  # the lines about them

    @property
    def goodput(self) -> float:
        """The share of the time that went into steps that count."""
        return self.updates * self.step_seconds / self.seconds


def measure(job: Job, happened: list[Happened], seconds: float) -> Result:
    """The figures of a job that has ended."""
    steps = [*job.steps()]
    texts = [line.text for line in job.lines]
    row = last_row(job.run)
    own = [found[1] for text in texts if (found := OWN.search(text))]
    return Result(
        happened=happened,
        steps=steps,
        seconds=seconds,
        step_seconds=median(usual(steps)),
        updates=row["step"] - row["skipped"],
        skipped=row["skipped"],
        own=float(own[-1]) / 100,
        spikes=[text for text in texts if "spikes of the norm" in text or ": back to" in text],
    )


def usual(steps: list[tuple[float, int]]) -> list[float]:
    """Seconds per step from one log point to the next of the same start."""
    return [
        (later[0] - earlier[0]) / (later[1] - earlier[1])
        for earlier, later in pairwise(steps)
        if later[1] > earlier[1]
    ]


def last_row(run: Path) -> dict[str, int]:
    """The newest row of a run's history that tells of training."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return next(row for row in reversed(rows) if "skipped" in row)
