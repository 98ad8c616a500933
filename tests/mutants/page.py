"""docs/mutants.md: which mistakes were seen, written by the run that put them in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.table import MUTATIONS, Mutation

VERDICT = "verdict"  # the property of a test that says what became of its mistake
NOT_RUN = "not run"


def write(reporter: Any, page: Path) -> None:
    """Write the page.

    Args:
        reporter: pytest's terminal reporter at the end of the run.
        page: the file.
    """
    reports = [report for found in reporter.stats.values() for report in found]
    said = [value for r in reports for value in getattr(r, "user_properties", [])]
    verdicts = {tuple(value[:2]): value[2] for name, value in said if name == VERDICT}
    rows = [verdicts.get((m.pitfall, m.mistake), NOT_RUN) for m in MUTATIONS]
    page.write_text(text(MUTATIONS, rows), encoding="utf-8")


def text(mutations: Sequence[Mutation], verdicts: Sequence[str]) -> str:
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
