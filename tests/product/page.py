"""docs/matrix.md: what a run of the matrix did, written by that run."""

import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import summary
from clusters import variants

from product import programs, template


def write(reporter: Any, page: Path) -> None:
    """Write the page.

    Args:
        reporter: pytest's terminal reporter at the end of the run.
        page: the file.
    """
    outcomes: dict[str, str] = {}
    seconds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in reporter.stats.get(outcome, []):
            outcomes[report.nodeid] = "failed" if outcome == "error" else outcome
            seconds[report.nodeid] += report.duration
            if outcome == "skipped":
                reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    rows = list(summary.rows(outcomes, seconds))
    page.write_text(text(rows, reasons), encoding="utf-8")


def text(rows: list[summary.Row], reasons: Counter[str]) -> str:
    """The page, in Markdown."""
    launch = sum(len(found) for found in variants.rendered().values())
    counted = sum((row.outcomes for row in rows), Counter())
    counts = ", ".join(f"{counted[name]} {name}" for name in ("passed", "failed", "skipped"))
    lines = [
        "# Every combination",
        "",
        "Written by `make matrix`; nothing here was typed by hand.",
        "",
        *trained(),
        f"- {len(list(template.files()))} files; those of launch/ have {launch} distinct texts.",
        f"- Tests: {counts}.",
        "",
        "| what | passed | failed | median s | longest s | all s |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -sum(row.seconds)):
        times = (statistics.median(row.seconds), max(row.seconds), sum(row.seconds))
        figures = " | ".join(f"{figure:.1f}" for figure in times)
        passed, failed = (row.outcomes[name] for name in ("passed", "failed"))
        lines.append(f"| {row.name}: {row.sentence} | {passed} | {failed} | {figures} |")
    if reasons:
        lines += ["", "Skipped:", "", *(f"- {number} × {why}" for why, number in reasons.items())]
    return "\n".join(lines) + "\n"


def trained() -> list[str]:
    """What is trained by which target, and what is equal by text."""
    valid, every = len(programs.every()), len(programs.programs())
    names = ", ".join(f"`{name}`" for name in programs.separable())
    paths = {path for name in programs.separable() for path in programs.touched(name)}
    touched = ", ".join(f"`{path}`" for path in sorted(paths))
    more = f"{len(programs.parts())} more: every form that a function of {touched} takes"
    return [
        f"- Options that shape the program: {valid} valid combinations, {every} programs.",
        f"- `make test` trains the {len(programs.cores())} in which {names} is off, and {more}.",
        "- In all others every other file is, by text, that of a program that is trained.",
    ]
