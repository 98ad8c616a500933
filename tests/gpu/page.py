"""docs/gpu.md: what the results of a GPU machine say. python -m gpu.page RESULTS PAGE."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def text(results: dict[str, Any]) -> str:
    """The page, in Markdown."""
    rows = results["rows"]
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    outcomes = {(row["program"], row["mode"]): row["outcome"] for row in rows}
    counts = {
        mode: Counter(row["outcome"] for row in rows if row["mode"] == mode) for mode in modes
    }
    lines = [
        "# On GPUs",
        "",
        "Written from the results of `make gpu`; nothing here was typed by hand. Each program",
        "trained in each mode; where it saves, it was stopped and resumed to the same bits.",
        "",
        *(f"- {name}: {value}" for name, value in results.items() if name != "rows"),
        "",
        "| mode | passed | failed | skipped |",
        "|---|---|---|---|",
    ]
    for mode, counted in counts.items():
        figures = " | ".join(str(counted[name]) for name in ("passed", "failed", "skipped"))
        lines.append(f"| {mode} | {figures} |")
    for outcome in ("skipped", "failed"):
        whys = (row["why"] for row in rows if row["outcome"] == outcome)
        reasons = Counter(map(without_numbers, whys))
        lines += ["", *(f"- {number} {outcome}: {why}" for why, number in reasons.items())]
    lines += ["", f"| program | {' | '.join(modes)} |", "|---" * (len(modes) + 1) + "|"]
    for program in dict.fromkeys(row["program"] for row in rows):
        cells = (outcomes.get((program, mode), "") for mode in modes)
        lines.append(f"| `{program}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def without_numbers(words: str) -> str:
    """A reason without the numbers of processes, which differ each time."""
    return re.sub(r"\d+(, \d+)*", "…", words)


if __name__ == "__main__":
    results, page = map(Path, sys.argv[1:])
    page.write_text(text(json.loads(results.read_text())), encoding="utf-8")
