"""What a run left: the rows of metrics.jsonl."""

import json
from pathlib import Path
from typing import Any


def history(folder: Path) -> list[dict[str, Any]]:
    """All rows of a run, in the order of their steps."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def column(rows: list[dict[str, Any]], name: str) -> list[float]:
    """One metric at every step that has it."""
    return [row[name] for row in rows if name in row]
