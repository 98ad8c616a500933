"""Records in JSON lines: read, and whether a column holds conversations."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

from ddpgen.errors import DdpgenError, show


def read(path: Path, count: int) -> list[dict[str, Any]]:
    """The first records of a file; none where something else than a record is among them.

    Raises:
        DdpgenError: a line is no JSON.
    """
    found = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(islice(file, count), start=1):
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                reason = f"line {number} is no JSON"
                raise DdpgenError(f"--data {show(str(path))}: {reason}") from error
    return found if all(isinstance(record, dict) for record in found) else []


def column_of_conversations(records: list[dict[str, Any]]) -> str:
    """The column of lists of {"role": ..., "content": ...}, or ""."""
    names = [*records[0]]
    return next((name for name in names if all(_is_chat(r.get(name)) for r in records)), "")


def _is_chat(value: object) -> bool:
    turns = value if isinstance(value, list) else []
    return bool(turns) and all(isinstance(t, dict) and {"role", "content"} <= {*t} for t in turns)
