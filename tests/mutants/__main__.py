"""Try every mutation; print what was killed and what survived, and write docs/mutants.md.

python -m mutants [PITFALL ...]
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

from mutants import run
from mutants.table import BASES, MUTATIONS, Mutation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"
WORKERS = 2
VERDICTS = {run.PASSED: "survived", run.FAILED: "killed"}
worker = local()


def main(pitfalls: Sequence[str]) -> int:
    """Exit code 1 if one survives."""
    chosen = [m for m in MUTATIONS if not pitfalls or m.pitfall in pitfalls]
    begin = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        unseen = list(pool.map(without, BASES)) if not pitfalls else []
        rows = list(pool.map(verdict, chosen))
    survived = [m for m, word in zip(chosen, rows, strict=True) if word != "killed"]
    spurious = [base for base, passed in zip(BASES, unseen, strict=False) if not passed]
    minutes = (time.monotonic() - begin) / 60
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed in {minutes:.1f} min")
    for base in spurious:
        print(f"the tests of the project {base} fail without any mistake")
    if not pitfalls:
        PAGE.write_text(page(chosen, rows), encoding="utf-8")
    return int(bool(survived or spurious))


def folder() -> Path:
    """This thread's projects."""
    if not hasattr(worker, "folder"):
        worker.folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    return worker.folder


def without(base: str) -> bool:
    """Whether a base passes the tests of all its rows."""
    rows = sorted({m.pitfall for m in MUTATIONS if m.base == base})
    outcome = run.own_tests(run.unpatched(base, folder()), f"({'|'.join(rows)})")
    print(
        f"{base} without mistakes: {'passes' if outcome.code == run.PASSED else 'FAILS'}",
        flush=True,
    )
    return outcome.code == run.PASSED


def verdict(mutation: Mutation) -> str:
    """Killed, survived, or what else happened."""
    outcome = run.test_with(mutation, folder())
    word = VERDICTS.get(outcome.code, f"not run (pytest's exit code {outcome.code})")
    print(f"{mutation.pitfall:4} {word:9} {mutation.mistake}", flush=True)
    return word


def page(mutations: Sequence[Mutation], verdicts: Sequence[str]) -> str:
    """What docs/mutants.md says."""
    rows = "".join(
        f"| {m.pitfall} | {m.mistake} | `{m.path}` | {word} | {_checked(m)} |\n"
        for m, word in zip(mutations, verdicts, strict=True)
    )
    killed = sum(word == "killed" for word in verdicts)
    reported = sum(" " not in m.check for m in mutations)
    return f"""# Mistakes, put in on purpose

Each row of [Pitfalls](pitfalls.md) that promises a test in the generated project is tried: a
mistake that users make while editing is put into a generated project, and one of the project's own
tests that name the row must fail. Without the mistake all of them pass. Written by `make mutants`.

**{killed} of {len(mutations)} mistakes are seen**, in {len({m.pitfall for m in mutations})} rows.
[`ddpgen check`](check/index.md), which reads and does not run, reports {reported} of them, or says
why the source does not show it; a test compares.

| id | mistake | file | tests | `ddpgen check` |
|---|---|---|---|---|
{rows}"""


def _checked(mutation: Mutation) -> str:
    """Whether the source alone shows a mistake: as which row, or why not."""
    return mutation.check.replace("|", "\\|") or "reported"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
