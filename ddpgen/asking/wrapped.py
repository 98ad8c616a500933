"""JSON that is no list of records: named, with the lines of Python that write the records."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpgen.asking.foreign_lines import at, indented, records
from ddpgen.errors import DdpgenError, show

SQUAD = {"context", "question", "answers"}
_ANSWERED = "file.write(json.dumps({'question': asked, 'context': about, 'answer': said}) + '\\n')"


def refuse(path: Path) -> None:
    """Refuse JSON in one object, and a file whose ending fits the other kind.

    Raises:
        DdpgenError: the file is such; the message has the way out.
    """
    with path.open(encoding="utf-8-sig") as file:
        first = next((line.strip() for line in file if line.strip()), "")
        second = next((line.strip() for line in file if line.strip()), "")
    if path.suffix.lower() == ".jsonl":
        if first.startswith("["):
            _refuse(path, "is one list of JSON, not a record in each line", f"call it {path.stem}")
    elif first.startswith("{") and second.startswith("{") and _is_json(first):
        _refuse(path, "has a record in each line", f"call it {path.stem}", ".jsonl")
    elif first.startswith("{"):
        _refuse_object(path)


def refuse_answers(path: Path, found: Sequence[dict[str, Any]]) -> None:
    """Refuse questions about a context whose answers are lists, as those of SQuAD.

    Raises:
        DdpgenError: the records are such; the message has lines that write what is read.
    """
    if {*found[0]} >= SQUAD and isinstance(found[0]["answers"], dict):
        lines = [
            f"for row in {records(path)}:",
            "    asked, about = row['question'], row['context']",
            "    for said in row['answers']['text'][:1]:",
            f"        {_ANSWERED}",
        ]
        _convert(path, "questions about a context, with lists of answers", lines)


def _refuse(path: Path, reason: str, how: str, ending: str = ".json") -> None:
    raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy=f"{how}{ending}")


def _convert(path: Path, reason: str, lines: Sequence[str]) -> None:
    target = f"{path.stem}-records.jsonl"
    how = f"these lines of Python write records that are read, then: --data {target}"
    begin = ["import json", f"file = open({target!r}, 'w', encoding='utf-8')"]
    code = indented([*begin, *lines, "file.close()"])
    raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy="\n  ".join([how, *code]))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_object(path: Path) -> None:
    """Refuse one object: SQuAD's, one with a list in it, columns, or records by their names."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return  # which is said elsewhere
    read = f"content = {records(path)}"
    inside = {key: value for key, value in content.items() if _are_records(value)}
    if "data" in inside and "paragraphs" in inside["data"][0]:
        lines = [
            read,
            "for part in (part for whole in content['data'] for part in whole['paragraphs']):",
            "    for qa in part['qas']:",
            "        asked, about = qa['question'], part['context']",
            "        for said in [answer['text'] for answer in qa['answers'][:1]]:",
            f"            {_ANSWERED}",
        ]
        _convert(path, "is one object, as SQuAD has questions about texts", lines)
    each = "    file.write(json.dumps(row) + '\\n')"
    if len(inside) == 1:
        (key,) = inside
        lines = [read, f"for row in content[{key!r}]:", each]
        _convert(path, f"is one object, with the records in {key!r}", lines)
    values = [*content.values()]
    if _are_records(values) and _same(values):
        long = len(values[0]) > len(values)
        rows = "zip(*[c.values() for c in content.values()])" if long else "content.values()"
        row = "dict(zip(content, row))" if long else "row"
        lines = [read, f"for row in {rows}:", each.replace("(row)", f"({row})")]
        what = "columns" if long else "records"
        _convert(path, f"is one object of {what}, by their names", lines)
    names = ", ".join(list(content)[:5])
    _refuse(path, f"is one object, with {names}", "write a list of records to", f" {at(path)}")


def _are_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _same(values: Sequence[dict[str, Any]]) -> bool:
    """Whether all have the same names, and no records in them."""
    whole = not any(isinstance(cell, dict | list) for cell in values[0].values())
    return whole and all(value.keys() == values[0].keys() for value in values)
