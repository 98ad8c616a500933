"""Disturbs runs in every way there is and writes docs/chaos.md.

python -m chaos [TRIES] [KIND ...]    in the folder tests; the page is written after a whole round
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from chaos.disturbances import KINDS, Disturbance
from chaos.lab import RANKS, SAVES, STEPS, Lab

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
# What also happens to saves that are no whole files, and of the tries above so many.
ELSEWHERE = [
    *("SIGKILL to a rank", "SIGKILL to all ranks", "SIGKILL inside a save", "SIGTERM to a rank"),
    *("SIGSTOP until the timeout", "newest file cut", "one bit of it flipped"),
]
OF_THEM = 0.3


HEAD = """\
| saves | what happens | tries | in the middle of a save | resumed on other ranks | \
finished checkpoints spoilt | identical ends |
|---|---|---|---|---|---|---|"""


class Kind(NamedTuple):
    """A disturbance, and what it disturbs."""

    name: str
    saves: str
    disturb: Disturbance

    @property
    def tries(self) -> float:
        """The share of the tries of a kind."""
        return SHARE.get(self.name, 0.1) * (1.0 if self.saves == "files" else OF_THEM)


def kinds() -> Iterator[Kind]:
    """All, in the order of the page."""
    for saves in SAVES:
        for name in KINDS if saves == "files" else ELSEWHERE:
            yield Kind(name, saves, KINDS[name])


@dataclass
class Result:
    """How the tries of one kind ended."""

    tries: int = 0
    inside: int = 0  # in the middle of a save
    others: int = 0  # went on with another number of ranks
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
    result.inside += lab.in_a_save(folder)
    spoilt = lab.corrupt(folder)
    expected = 1 if disturb.__name__ in ("tear", "flip") else 0
    result.damaged += max(0, len(spoilt) - expected)
    step, ranks = lab.step(folder), chance.choice(lab.ranks)
    result.others += ranks != RANKS
    run = lab.finish(folder, ranks)
    if run.codes == [0] * ranks and lab.identical(folder, step, ranks):
        result.identical += 1
    else:
        words = f"{folder}: after step {step} on {ranks} ranks, exit codes {run.codes}"
        result.failures.append(f"{words}\n{run.output[-1500:]}")


def main(tries: int, chosen: list[str]) -> int:
    """The table, as text and as a page; the exit code is 1 where a try was lost."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    labs: dict[str, Lab] = {}
    rows, results, begin = [], [], time.monotonic()
    print(f"seed {seed}", flush=True)
    for kind in kinds():
        if chosen and not {kind.name, kind.saves} & {*chosen}:
            continue
        if kind.saves not in labs:
            labs[kind.saves] = lab = Lab(Path(tempfile.mkdtemp(prefix="chaos-")), kind.saves)
            print(f"{kind.saves}: an undisturbed run takes {lab.seconds:.2f} s", flush=True)
        result = Result()
        while result.tries < max(1, round(tries * kind.tries)):
            attempt(labs[kind.saves], kind.disturb, chance, result)
        results.append(result)
        rows.append(row(kind.saves, kind.name, result))
        print(rows[-1], *result.failures, sep="\n", flush=True)
    lost = sum(result.tries - result.identical + result.damaged for result in results)
    if not chosen:
        seconds = {saves: lab.seconds for saves, lab in labs.items()}
        text = page(rows, results, seconds, time.monotonic() - begin)
        PAGE.write_text(text, encoding="utf-8")
    return int(lost > 0)


def row(saves: str, name: str, result: Result) -> str:
    """A line of the table."""
    counts = (result.tries, result.inside, result.others, result.damaged, result.identical)
    return f"| {saves} | {name} | {' | '.join(map(str, counts))} |"


def page(rows: list[str], results: list[Result], seconds: dict[str, float], took: float) -> str:
    counts = ("tries", "inside", "others", "damaged", "identical")
    total = [sum(getattr(result, name) for result in results) for name in counts]
    bold = " | ".join(f"**{count}**" for count in total)
    return f"""# Chaos

A generated project is disturbed at random moments and then resumed. It counts as identical when
weights, optimizer, counters and the history of metrics equal those of an undisturbed run bit for
bit.

{HEAD}
{chr(10).join(rows)}
| **all** | | {bold} |

Written by `make chaos`: the table model on {RANKS} ranks, {STEPS} optimizer steps with dropout and
accumulation, a checkpoint after each; an undisturbed run took {seconds["files"]:.1f} s, all tries
{took / 60:.0f} minutes on {os.cpu_count()} CPU cores, torch {torch.__version__}.

- **Saves**: whole files by rank 0; with `sharding=fsdp` shards, a folder of shares of all ranks
  (`saves=shards`); files that a thread writes beside the training (`saves=background`). Of the last
  two, each operation on a file takes 10 ms longer, so that many moments are inside a write.
- **In the middle of a save**: a file, a share or a folder was begun, and no manifest finished.
- **Other ranks**: what was saved by {RANKS} ranks goes on with 1, 2 or 4, and is compared with an
  undisturbed run of {RANKS} ranks that changed to as many after the same step.
- "SIGKILL inside a save" hits a rank that writes between two operations on the files, each of them
  in turn by chance; the other moments are spread over the whole run, its start included.
"""


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 170
    sys.exit(main(count, sys.argv[2:]))
