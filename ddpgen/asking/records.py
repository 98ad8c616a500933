"""Records in JSON or in JSON lines: read, and whether they hold conversations."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

from ddpgen.errors import DdpgenError, show

# Columns of a question and its answer, which `causal-lm` takes for a conversation.
PAIRS = {
    "prompt": ("completion", "response"),
    "instruction": ("output", "response"),
    "question": ("answer", "response"),
}


def read(path: Path, count: int) -> list[dict[str, Any]]:
    """The first records of a file; none where something else than a record is among them.

    Raises:
        DdpgenError: a line is no JSON.
    """
    if path.suffix.lower() == ".json":
        return _listed(path)[:count]
    found = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(islice(file, count), start=1):
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                reason = f"line {number} is no JSON"
                raise DdpgenError(f"--data {show(str(path))}: {reason}") from error
    return found if all(isinstance(record, dict) for record in found) else []


def _listed(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise DdpgenError(f"--data {show(str(path))}: no JSON: {error}") from error
    good = isinstance(found, list) and all(isinstance(record, dict) for record in found)
    return found if good else []


def pair_of(records: list[dict[str, Any]]) -> str:
    """The columns of a question and its answer, in words, or ""."""
    pairs = [(question, answer) for question in PAIRS for answer in PAIRS[question]]
    inside = (pair for pair in pairs if all({*pair} <= record.keys() for record in records))
    return " and ".join(next(inside, ()))


def column_of_conversations(records: list[dict[str, Any]]) -> str:
    """The column of lists of {"role": ..., "content": ...}, or ""."""
    names = [*records[0]]
    return next((name for name in names if all(_is_chat(r.get(name)) for r in records)), "")


def _is_chat(value: object) -> bool:
    turns = value if isinstance(value, list) else []
    kinds = ({"role", "content"}, {"from", "value"})
    return bool(turns) and all(isinstance(t, dict) and any(k <= {*t} for k in kinds) for t in turns)
