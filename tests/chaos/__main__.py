"""Disturbs runs in every way there is and writes docs/chaos.md.

python -m chaos [TRIES] [KIND ...]    in the folder tests; the page is written after a whole round
"""

import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from chaos.disturbances import KINDS, Disturbance
from chaos.lab import RANKS, STEPS, Lab

PAGE = Path(__file__).resolve().parents[2] / "docs" / "chaos.md"
# Of so many tries per kind; those without a figure get a tenth.
SHARE = {
    "SIGKILL to a rank": 1.0,
    "SIGKILL to all ranks": 1.0,
    "SIGKILL inside a save": 1.0,
    "SIGKILL to torchrun": 0.02,
    "SIGSTOP until the timeout": 0.02,
    "network between two hosts cut": 0.02,
}


@dataclass
class Result:
    """How the tries of one kind ended."""

    tries: int = 0
    identical: int = 0
    damaged: int = 0  # finished checkpoints that a crash has spoilt
    failures: list[str] = field(default_factory=list)


def attempt(lab: Lab, disturb: Disturbance, chance: random.Random, result: Result) -> None:
    """One disturbance, then a resume to the end."""
    folder = lab.new()
    try:
        if not disturb(lab, folder, chance):
            return
    except AssertionError as error:
        result.tries += 1
        result.failures.append(f"{folder}: {error!r}")
        return
    result.tries += 1
    spoilt = lab.corrupt(folder)
    expected = 1 if disturb.__name__ in ("tear", "flip") else 0
    result.damaged += max(0, len(spoilt) - expected)
    run = lab.finish(folder)
    if run.codes == [0] * RANKS and lab.identical(folder):
        result.identical += 1
    else:
        result.failures.append(f"{folder}: exit codes {run.codes}\n{run.output[-1500:]}")


def main(tries: int, kinds: list[str]) -> int:
    """The table, as text and as a page; the exit code is 1 where a try was lost."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    lab = Lab(Path(tempfile.mkdtemp(prefix="chaos-")))
    rows, results, begin = [], [], time.monotonic()
    print(f"seed {seed}; an undisturbed run takes {lab.seconds:.2f} s", flush=True)
    for name in kinds:
        result = Result()
        while result.tries < max(1, round(tries * SHARE.get(name, 0.1))):
            attempt(lab, KINDS[name], chance, result)
        results.append(result)
        rows.append(f"| {name} | {result.tries} | {result.damaged} | {result.identical} |")
        print(rows[-1], *result.failures, sep="\n", flush=True)
    lost = sum(result.tries - result.identical + result.damaged for result in results)
    if kinds == list(KINDS):
        PAGE.write_text(
            page(rows, results, lab.seconds, time.monotonic() - begin), encoding="utf-8"
        )
    return int(lost > 0)


def page(rows: list[str], results: list[Result], seconds: float, took: float) -> str:
    total = sum(result.tries for result in results)
    identical = sum(result.identical for result in results)
    damaged = sum(result.damaged for result in results)
    return f"""# Chaos

A generated project is disturbed at random moments and then resumed. It counts as identical when
weights, optimizer, counters and the history of metrics equal those of an undisturbed run bit for
bit.

| what happens | tries | finished checkpoints spoilt | identical ends |
|---|---|---|---|
{chr(10).join(rows)}
| **all** | **{total}** | **{damaged}** | **{identical}** |

Written by `make chaos`: the table model on {RANKS} ranks, {STEPS} optimizer steps with dropout and
accumulation, a checkpoint after each; an undisturbed run took {seconds:.1f} s, all tries
{took / 60:.0f} minutes on {os.cpu_count()} CPU cores, torch {torch.__version__}.
"SIGKILL inside a save" hits rank 0 between two operations on the files, each of them in turn by
chance; the other moments are spread over the whole run, its start included.
"""


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 170
    sys.exit(main(count, sys.argv[2:] or list(KINDS)))
