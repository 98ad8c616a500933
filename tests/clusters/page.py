"""docs/clusters.md: what was done to jobs on the clusters, and how it ended, by the run itself."""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "failed", "error", "skipped")


def write(reporter: Any, page: Path) -> None:
    """Write the page.

    Args:
        reporter: pytest's terminal reporter at the end of the run.
        page: the file.
    """
    rows: dict[str, list[str]] = defaultdict(list)
    counts = dict.fromkeys(OUTCOMES, 0)
    for outcome in OUTCOMES:
        for report in reporter.stats.get(outcome, []):
            counts[outcome] += 1
            file, _, test = report.nodeid.partition("::")
            words = test.removeprefix("test_").replace("_", " ").replace("[", ": ").rstrip("]")
            ending = outcome
            if outcome == "skipped":
                ending += f" ({str(report.longrepr[2]).removeprefix('Skipped: ')})"
            rows[file].append(f"| {words} | {ending} | {report.duration:.0f} |")
    page.write_text(_text(rows, counts), encoding="utf-8")


def _text(rows: dict[str, list[str]], counts: dict[str, int]) -> str:
    lines = [
        "# Clusters",
        "",
        "Written by `make clusters`; nothing here was typed by hand. Controllers, daemons,",
        "networks, signals and losses were real, on one machine; [Launch files](launching.md) says",
        "what could only be checked in form.",
        "",
        ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) + ".",
    ]
    for file in sorted(rows):
        lines += ["", f"## {_title(file)}", "", "| what | outcome | s |", "|---|---|---|"]
        lines += rows[file]
    return "\n".join(lines) + "\n"


def _title(file: str) -> str:
    """The first line of the module's docstring."""
    stem = Path(file).stem
    module = next(found for name, found in sys.modules.items() if name.endswith(stem))
    return (module.__doc__ or stem).partition("\n")[0].rstrip(".")
