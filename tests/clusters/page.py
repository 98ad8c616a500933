"""docs/clusters.md: what was done to jobs on the clusters, and how it ended, by the run itself."""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Tries = dict[str, dict[str, Counter[str]]]  # title -> what happens -> outcome -> how often
Row = tuple[str, str, float]  # what, outcome, seconds

OUTCOMES = ("passed", "failed", "error", "skipped")
MANY = 20  # variants of one test get one row, if all ended alike
DISTURBANCE = "disturbance"  # the property of a test that says what happens to its job
TIMES = "times"  # seconds until the log says why, and until the next step


def write(reporter: Any, page: Path) -> None:
    """Write the page.

    Args:
        reporter: pytest's terminal reporter at the end of the run.
        page: the file.
    """
    rows: dict[str, list[Row]] = defaultdict(list)
    tries: Tries = defaultdict(lambda: defaultdict(Counter))
    times: dict[str, list[str]] = defaultdict(list)
    counts = dict.fromkeys(OUTCOMES, 0)
    for outcome in OUTCOMES:
        for report in reporter.stats.get(outcome, []):
            counts[outcome] += 1
            file, _, test = report.nodeid.partition("::")
            words = test.removeprefix("test_").replace("_", " ").replace("[", ": ").rstrip("]")
            ending = outcome
            if outcome == "skipped":
                ending += f" ({str(report.longrepr[2]).removeprefix('Skipped: ')})"
            rows[file].append((words, ending, report.duration))
            for name, what in report.user_properties:
                if name == DISTURBANCE:
                    tries[_title(file)][what.rstrip(".")][outcome] += 1
            told = dict(report.user_properties)
            if TIMES in told:
                named, step = told[TIMES]
                what = f"{told[DISTURBANCE].rstrip('.')}{_host(test)}"
                times[_title(file)].append(f"| {what} | {named:.0f} | {step:.0f} |")
    page.write_text(_text(rows, tries, counts, times), encoding="utf-8")


def _host(test: str) -> str:
    """The host of a test that is done to several."""
    found = re.search(r"\[(host\d)", test)
    return f", {found[1]}" if found else ""


def _text(
    rows: dict[str, list[Row]], tries: Tries, counts: dict[str, int], times: dict[str, list[str]]
) -> str:
    lines = [
        "# Clusters",
        "",
        "Written by `make clusters`; nothing here was typed by hand. Controllers, daemons,",
        "networks, signals and losses were real, on one machine;",
        "[Launch files](reference/launch-files.md) says what could only be checked in form.",
        "",
        ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) + ".",
        "",
        "## What happens to jobs",
        "",
        "The expected end is, in most tests, the weights of a job to which nothing happened, and",
        "for a job that is lost: that all of it ends, and says why, on every host that is left.",
        "",
        "| what happens | tries | expected ends |",
        "|---|---|---|",
        *_disturbances(tries),
        "",
        "## How long it takes",
        "",
        "Seconds from what happens until the log says why the job ended, and until the next step",
        "after that. SLURM and ssh have their default timeouts; collectives end after 30 s under",
        "SLURM and 20 s under ssh, in place of 600.",
        "",
        "| what happens | the reason is said | next step |",
        "|---|---:|---:|",
    ]
    for title in sorted(times):
        lines += [f"| *{title}* | | |", *times[title]]
    for file in sorted(rows):
        lines += ["", f"## {_title(file)}", "", "| what | outcome | s |", "|---|---|---|"]
        lines += [f"| {what} | {end} | {seconds:.0f} |" for what, end, seconds in _few(rows[file])]
    return "\n".join(lines) + "\n"


def _few(rows: list[Row]) -> Iterator[Row]:
    """The rows, with one in place of many variants of a test."""
    variants: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        variants[row[0].partition(": ")[0]].append(row)
    for test, found in variants.items():
        endings = {ending for _, ending, _ in found}
        if len(found) > MANY and len(endings) == 1:
            yield test, f"{len(found)} {endings.pop()}", sum(seconds for *_, seconds in found)
        else:
            yield from found


def _disturbances(tries: Tries) -> Iterator[str]:
    """The rows of the first table: what was not run is no try."""
    total: Counter[str] = Counter()
    for title in sorted(tries):
        yield f"| *{title}* | | |"
        for what, outcomes in tries[title].items():
            total += outcomes
            yield f"| {what} | {_tried(outcomes)} | {outcomes['passed']} |"
    yield f"| **all** | **{_tried(total)}** | **{total['passed']}** |"


def _tried(outcomes: Counter[str]) -> int:
    return outcomes.total() - outcomes["skipped"]


def _title(file: str) -> str:
    """The first line of the module's docstring."""
    stem = Path(file).stem
    module = next(found for name, found in sys.modules.items() if name.endswith(stem))
    return (module.__doc__ or stem).partition("\n")[0].rstrip(".")
