"""Messages that answer each other, as OpenAssistant has them: with a parent, or as trees."""

from collections.abc import Collection
from pathlib import Path

from ddpgen.asking import foreign_lines
from ddpgen.errors import DdpgenError, show

MESSAGE = {"message_id", "parent_id", "role", "text"}
TREE = {"message_tree_id", "prompt"}


def refuse(path: Path, names: Collection[str]) -> None:
    """Refuse records with these names, where each is one message, or a tree of messages.

    Raises:
        DdpgenError: they are; the message has the lines that write conversations.
    """
    if {*names} >= MESSAGE:
        reason, code = "messages that answer each other by parent_id", _of_messages()
    elif {*names} >= TREE:
        reason, code = "trees of messages", _of_trees()
    else:
        return
    target = f"{path.stem}-chats.jsonl"
    how = (
        f"these lines of Python write the longest conversation of each tree, then: --data {target}"
    )
    end = [
        f"with open({target!r}, 'w', encoding='utf-8') as file:",
        "    for turns in chats:",
        "        file.write(json.dumps({'messages': turns}) + '\\n')",
    ]
    lines = [f"  {line}" for line in [*_read(path), *code, *end]]
    raise DdpgenError(f"--data {show(str(path))}: {reason}", remedy="\n  ".join([how, *lines]))


def _read(path: Path) -> list[str]:
    """Lines that read all records."""
    if path.suffix.lower() == ".parquet":
        read = f"parquet.read_table({str(path.absolute())!r}).to_pylist()"
        return ["import json", "from pyarrow import parquet", f"records = {read}"]
    return ["import json", f"records = {foreign_lines.records(path)}"]


def _of_messages() -> list[str]:
    """Lines that follow each answer up to the first question of its tree."""
    return [
        "known = {record['message_id']: record for record in records}",
        "longest = {}",
        "for record in records:",
        "    turns = []",
        "    while record:",
        "        role = 'assistant' if record['role'] == 'assistant' else 'user'",
        "        turns.insert(0, {'role': role, 'content': record['text']})",
        "        tree, record = record['message_id'], known.get(record['parent_id'])",
        "    if turns[-1]['role'] == 'assistant' and len(turns) > len(longest.get(tree, [])):",
        "        longest[tree] = turns",
        "chats = longest.values()",
    ]


def _of_trees() -> list[str]:
    """Lines that follow the longest branch, up to its last answer."""
    return [
        "def branch(message):",
        "    role = 'assistant' if message['role'] == 'assistant' else 'user'",
        "    rest = max(map(branch, message.get('replies') or []), key=len, default=[])",
        "    return [{'role': role, 'content': message['text']}, *rest]",
        "chats = [branch(record['prompt']) for record in records]",
        "chats = [turns[: len(turns) // 2 * 2] for turns in chats if len(turns) > 1]",
    ]
