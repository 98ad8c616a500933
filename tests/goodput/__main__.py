"""Lets faults happen to a job of two hours and writes docs/goodput.md.

python -m goodput [MINUTES] [SEED]    in the folder tests; an hour or more writes the page
"""

import random
import sys
import tempfile
from pathlib import Path

from goodput import page
from goodput.faults import Happened, happen, plan
from goodput.lab import STEP, lab
from goodput.measure import measure
from tests.clusters import network
from tests.clusters.checkpoints import assert_same, last_checkpoint

WHOLE = 120  # minutes
GOAL = 0.95


def main(minutes: float, seed: int) -> int:
    """Run both jobs, compare their weights, tell the figures; 1 where a promise is not kept."""
    print(f"seed {seed}", flush=True)
    steps = round(60 * minutes / STEP)
    with (
        tempfile.TemporaryDirectory(prefix="goodput-") as folder,
        lab(Path(folder), steps, network.environment()) as made,
    ):
        undisturbed = made.start("undisturbed", 0.0)
        if status := undisturbed.finish():
            print(undisturbed.end_of_log())
            return status
        job = made.start("disturbed", STEP)
        happened: list[Happened] = []
        for planned in plan(random.Random(seed), 60 * minutes):
            print(f"{planned.at / 60:.1f} min: {planned.fault.name}, {planned.host}", flush=True)
            try:
                found = happen(made, job, planned)
            except TimeoutError:
                print(job.end_of_log())
                raise
            if found:
                happened.append(found)
                print(f"  named after {found.named:.0f} s, next step after {found.next_step:.0f} s")
                print(f"  {found.words}", flush=True)
        status, seconds = job.finish(), job.now()
        if status:
            print(job.end_of_log())
            return status
        result = measure(job, happened, seconds)
        print(
            f"goodput {result.goodput:.3f}, the run says {result.own:.3f}", *result.spikes, sep="\n"
        )
        assert_same(last_checkpoint(job.run), last_checkpoint(undisturbed.run))
    print("weights, moments and counters equal those of the undisturbed run, bit for bit")
    if minutes >= WHOLE / 2:
        page.write(result, seed)
    return int(result.goodput < GOAL)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    minutes, seed = (given + [WHOLE, random.randrange(10**6)][len(given) :])[:2]
    sys.exit(main(minutes, int(seed)))
