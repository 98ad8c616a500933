"""docs/matrix.md: what a run of the matrix did, written by that run."""

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from clusters import variants

from product import programs, template
from product.combinations import combinations

PURPOSE = {
    "test_programs.py::test_program": "programs that trained on two processes, evaluated, saved, "
    "resumed where they can, and gave the losses of the plainest program",
    "test_own_tests.py::test_project_passes_its_own_tests": "projects that passed their own tests",
}


def write(reporter: Any, page: Path) -> None:
    """Write the page.

    Args:
        reporter: pytest's terminal reporter at the end of the run.
        page: the file.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    reasons: dict[str, int] = defaultdict(int)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in reporter.stats.get(outcome, []):
            kind = report.nodeid.partition("[")[0].rpartition("/")[2]
            counts[kind][outcome] += 1
            seconds[kind].append(report.duration)
            if outcome == "skipped":
                reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    page.write_text(_text(counts, seconds, reasons), encoding="utf-8")


def _text(
    counts: dict[str, dict[str, int]], seconds: dict[str, list[float]], reasons: dict[str, int]
) -> str:
    valid, distinct = len(combinations(programs.options())), len(programs.programs())
    launch = variants.rendered()
    texts = sum(len(found) for found in launch.values())
    passed = sum(counted["passed"] for counted in counts.values())
    failed = sum(counted["failed"] + counted["error"] for counted in counts.values())
    lines = [
        "# Every combination",
        "",
        "Written by `make matrix`; nothing here was typed by hand.",
        "",
        f"- Options that shape the program: {valid} valid combinations, {distinct} programs.",
        f"- {len(list(template.files()))} files; those of launch/ have {texts} distinct texts.",
        f"- {passed} tests passed, {failed} failed, {sum(reasons.values())} were skipped.",
        "",
        "| what | passed | failed | median s | longest s | all s |",
        "|---|---|---|---|---|---|",
    ]
    for kind in sorted(counts, key=lambda kind: -sum(seconds[kind])):
        name = PURPOSE.get(kind, f"`{kind}`")
        times = seconds[kind]
        figures = (statistics.median(times), max(times), sum(times))
        shown = " | ".join(f"{figure:.1f}" for figure in figures)
        bad = counts[kind]["failed"] + counts[kind]["error"]
        lines.append(f"| {name} | {counts[kind]['passed']} | {bad} | {shown} |")
    lines += ["", "Skipped:", "", *(f"- {number} × {why}" for why, number in reasons.items())]
    return "\n".join(lines if reasons else lines[:-3]) + "\n"
