"""Records in JSON or in JSON lines: read, and whether they hold conversations."""

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ddpgen.asking.column import Column
from ddpgen.errors import DdpgenError, show

# Columns of a question and its answer, which `causal-lm` takes for a conversation.
PAIRS = {
    "prompt": ("completion", "response"),
    "instruction": ("output", "response"),
    "question": ("answer", "response"),
}

PREFERRED = {"chosen", "rejected"}


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
            except (ValueError, RecursionError) as error:
                reason = f"line {number} is no JSON"
                raise DdpgenError(f"--data {show(str(path))}: {reason}") from error
    return found if all(isinstance(record, dict) for record in found) else []


def _listed(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DdpgenError(f"--data {show(str(path))}: no JSON: {error}") from error
    good = isinstance(found, list) and all(isinstance(record, dict) for record in found)
    return found if good else []


def refuse_several(path: Path, records: list[dict[str, Any]], columns: Sequence[str]) -> None:
    """Refuse several values in a column of which a record has one.

    Raises:
        DdpgenError: a record has a list there.
    """
    for number, record in enumerate(records, start=1):
        if several := [name for name in columns if isinstance(record.get(name), list)]:
            raise DdpgenError(
                f"--data {show(str(path))}: record {number} has several values in {several[0]}",
                remedy="write one text and one label in each record: classes exclude each other",
            )


def pair_of(records: list[dict[str, Any]]) -> tuple[str, ...]:
    """The columns of a question and its answer, or none."""
    return pair_in({*records[0]}.intersection(*records))


def pair_in(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of a question and its answer among these, or none."""
    pairs = [(question, answer) for question in PAIRS for answer in PAIRS[question]]
    return next((pair for pair in pairs if {*pair} <= {*names}), ())


def beside(columns: Iterable[Column]) -> list[str]:
    """The columns of what a question or an instruction is about."""
    return [column.name for column in columns if column.name in ("input", "context", "system")]


def column_of_conversations(records: list[dict[str, Any]]) -> str:
    """The column of lists of {"role": ..., "content": ...}, or ""."""
    names = [name for name in records[0] if name not in pair_of(records)]
    return next((name for name in names if all(_is_chat(r.get(name)) for r in records)), "")


def about_preferences(records: list[dict[str, Any]]) -> list[str]:
    """Words about answers that are to be preferred to others."""
    known = {*records[0]} >= PREFERRED
    return ["rejected answers are not read: there is no training on preferences (DPO)"] * known


def _is_chat(value: object) -> bool:
    turns = value if isinstance(value, list) else []
    return bool(turns) and all(isinstance(turn, dict) and _is_said(turn) for turn in turns)


def _is_said(turn: dict[str, Any]) -> bool:
    """Whether a turn has words, perhaps in parts, or calls of tools."""
    content = turn.get("content", turn.get("value"))
    parts = content if isinstance(content, list) else []
    words = isinstance(content, str) or (parts and all(map(_is_text, parts)))
    calls = not content and turn.get("tool_calls")
    return bool((words and is_turn(turn)) or (calls and "role" in turn))


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def is_turn(names: Collection[str]) -> bool:
    """Whether these are the names of who speaks and what is said."""
    return any(kind <= {*names} for kind in ({"role", "content"}, {"from", "value"}))
