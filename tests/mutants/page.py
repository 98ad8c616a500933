"""docs/mutants.md: which mistakes were seen, written by the run that put them in."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.systematic import EQUIVALENT, KILLED, RESULTS, SURVIVED
from mutants.table import MUTATIONS, Mutation

KINDS = {
    "launch": "*launch* is started on one machine, by ssh, and under SLURM, PBS and LSF",
    "plain": "*plain* is the default project",
    "rich": "*rich* a GPT with accumulation, bf16, recomputation, ZeRO-1 and a tracker",
}
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
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    page.write_text(text(MUTATIONS, rows) + section(found), encoding="utf-8")


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


def section(results: dict[str, Any]) -> str:
    """What is said of the changes that were made by syntax."""
    files = [
        (project, path, counts)
        for project, found in results.items()
        for path, counts in found["files"].items()
        if any(counts[word] for word in (KILLED, SURVIVED, EQUIVALENT))
    ]
    killed, survived, equivalent = (
        sum(counts[word] for *_, counts in files) for word in (KILLED, SURVIVED, EQUIVALENT)
    )
    tried = killed + survived
    rows = "".join(
        f"| {project} | `{path}` | {c[KILLED]} | {c[SURVIVED]} | {c[EQUIVALENT]} |\n"
        for project, path, c in files
    )
    survivors = "".join(
        f"- `{path}`, `{function or 'the module'}`: {_change(before, after)}\n"
        for _, path, counts in files
        for function, before, after in counts["survivors"]
    )
    kinds = ", ".join(KINDS[name] for name in results)
    made = ", ".join(f"{found['made']:,} ({name})" for name, found in results.items())
    seeds = ", ".join(f"{found['seed']} ({name})" for name, found in results.items())
    return f"""
## Changes made by syntax

A table of one's own examples cannot show what others will do. So changes are also made by syntax,
over every statement and expression of the machinery: names of one type exchanged (`rank`,
`local_rank`, `world_size`), calls, statements, keywords, decorators, context managers and clean-ups
left out, conditions negated, numbers off by one, arguments swapped. In launch files lines, flags,
quotes and `exec` are left out, and operators, numbers and variables are exchanged. That makes
{made} mutants. A sample of each, drawn by the seeds {seeds}, was put in, one at a time, and the
tests that run the changed lines were run until the first that failed.

**{killed} of {tried} are seen, {_share(killed, tried):.0%}**; with a probability of 95 % at least
{_bound(killed, tried):.0%} of all are. {equivalent} more change nothing that could be seen, each
with its reason in `tests/mutants/equivalent.toml`. {kinds}.

| project | file | killed | survived | equivalent |
|---|---|---|---|---|
{rows}
What survived when this was measured:

{survivors or "nothing."}"""


def _change(before: str, after: str) -> str:
    """A change in words."""
    old, new = (text if len(text) < 80 else f"{text[:77]}..." for text in (before, after))
    return f"`{old}` becomes `{new}`" if after else f"`{old}` is left out"


def _share(part: int, whole: int) -> float:
    return part / max(1, whole)


def _bound(part: int, whole: int) -> float:
    """Wilson's lower bound of a share, one-sided at 95 %."""
    z, n, p = 1.645, max(1, whole), _share(part, whole)
    middle, width = p + z**2 / (2 * n), math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (middle - z * width) / (1 + z**2 / n)
