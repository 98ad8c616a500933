"""Pages that are made from the product itself, so that they cannot be out of date."""

import argparse
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ddpgen import cli
from ddpgen.asking import options, questions
from ddpgen.asking.question import Value
from ddpgen.checking import pages
from ddpgen.errors import show
from ddpgen.renaming import migrations
from ddpgen.rendering.render import render

DOCS = Path(__file__).resolve().parent
# Answers that bring keys of a config, or take some away, each beside the defaults.
ANSWERS: dict[str, Value] = {
    "accumulation": True,
    "checkpoint": False,
    "compression": True,
    "dynamic_graph": True,
    "tools": ["profile"],
    "tracker": "tensorboard",
    "watch": ["replicas", "spikes", "ranks", "speed", "files", "starts"],
}
SECTIONS = ("run", "train", "optim", "ddp", "checkpoint", "log", "profile", "watch")
OWN_SECTIONS = ("data", "model")  # of each model family

Key = tuple[str, str]  # section and name

COMMANDS = """\
# Commands

What `ddpgen COMMAND --help` prints. The exit code is 0 when all is done, 1 for a failure of the
machine (or findings, or conflicts), 2 for a mistake in the command, and 130 after Ctrl-C.
"""
CONFIG = """\
# Config keys

Every key of `config.toml`, with the default of a project on one GPU. An argument
`section.key=value` changes a value for one run; a file for `--config` needs only the keys that
differ from `config.toml`. Keys of options are there when the option is chosen.
"""
MOVES = """\
# Moves and new names

`ddpgen update` applies these to a project: your edits arrive in the moved files, and your own
files get the new imports. [How to update](../howto/update.md).
"""
DECISIONS = """\
# Decisions

One page each: the situation, the choice, and what follows from the choice.
"""


def texts() -> dict[str, str]:
    """Every generated page, by its place in the documentation."""
    return {
        "reference/options.md": options.describe("markdown"),
        "reference/config.md": config_keys(),
        "reference/commands.md": commands(),
        "reference/migrations.md": moves(),
        "check/index.md": rules(),
        "decisions/index.md": decisions(),
    }


def decisions() -> str:
    """A list with the title of each record."""
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    titles = [record.read_text(encoding="utf-8").partition("\n")[0][2:] for record in records]
    lines = [f"- [{t}]({r.name})" for t, r in zip(titles, records, strict=True)]
    return "\n".join([DECISIONS, *lines, ""])


def rules() -> str:
    """The checker's page, with a list of its rules."""
    introduction = (DOCS / "check" / "_index.md").read_text(encoding="utf-8")
    lines = [f"- [{name}]({name}.md): {pages.title(name)}" for name in pages.ids()]
    return "\n".join([introduction, *lines, ""])


def commands() -> str:
    """What each command of ddpgen says to `--help`."""
    os.environ["COLUMNS"] = "100"  # argparse asks it for the width
    found = [a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction)]
    parts = [COMMANDS]
    for name, command in found[0].choices.items():
        parts.append(f"## `ddpgen {name}`\n\n```text\n{command.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


def moves() -> str:
    """What versions of the template moved and renamed."""
    parts = [MOVES]
    for entry in migrations.table():
        parts.append(f"## {entry.version}: {entry.reason[0].upper()}{entry.reason[1:]}\n")
        programs = [(old, f"python -m {new}") for old, new in entry.programs.items()]
        tables = [
            ("file", "is now", entry.moves.items()),
            ("file", "became a part of", entry.merged.items()),
            ("program", "is now", programs),
            ("name that your files import", "is now", entry.exported.items()),
            ("name in the template's files", "is now", _renamed(entry.names)),
        ]
        for left, right, pairs in tables:
            lines = [f"| `{old}` | `{new}` |" for old, new in pairs]
            parts += (
                ["\n".join([f"| {left} | {right} |", "|---|---|", *lines, ""])] if lines else []
            )
    return "\n".join(parts)


def _renamed(groups: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """Each pair once: a name may have become two, in different files."""
    tables = [group.get(kind, {}) for kind in ("variables", "attributes") for group in groups]
    return dict.fromkeys(pair for table in tables for pair in table.items())


def config_keys() -> str:
    """Every key of config.toml, with its default and its comment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = keys({}, folder / "plain")
        others = {name: keys({name: ANSWERS[name]}, folder / name) for name in ANSWERS}
        models = questions.load().questions["model"].values
        own = {m: keys({"model": m, "dynamic_graph": True}, folder / m) for m in models}
    shared, notes = dict(plain), dict[Key, list[str]]()
    for name, found in others.items():
        answer = f"`{name}={show(ANSWERS[name])}`" if name != "tracker" else "a `tracker`"
        for key in [key for key in plain if key not in found]:
            notes.setdefault(key, []).append(f"not with {answer}")
        for key in [key for key in found if key not in plain]:
            notes.setdefault(key, []).append(f"with {answer}")
            shared[key] = found[key]
    if unknown := {section for section, _ in shared} - {*SECTIONS, *OWN_SECTIONS}:
        raise ValueError(f"sections of config.toml that the page lacks: {unknown}")
    tables = [(f"[{s}]", s, shared) for s in SECTIONS]
    tables += [
        (f"[{s}] of {model}", s, found) for model, found in own.items() for s in OWN_SECTIONS
    ]
    parts = ["\n".join([f"## {title}", "", *rows(s, k, notes), ""]) for title, s, k in tables]
    return "\n".join([CONFIG, *parts])


def rows(
    section: str, found: Mapping[Key, tuple[str, str]], notes: Mapping[Key, Sequence[str]]
) -> Iterator[str]:
    """The table of a section."""
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for (where, name), (value, comment) in found.items():
        if where == section:
            meaning = "; ".join(filter(None, [comment, *notes.get((where, name), [])]))
            yield f"| `{name}` | `{value}` | {meaning} |"


def keys(answers: Mapping[str, Value], folder: Path) -> dict[Key, tuple[str, str]]:
    """The keys of a project's config: value and comment, by section and name."""
    render(answers, folder)
    found: dict[Key, tuple[str, str]] = {}
    section = name = ""
    for line in (folder / "config.toml").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"\[(\w+)\]", line):
            section, name = heading[1], ""
        elif entry := re.match(r'(\w+) = ("[^"]*"|\[[^]]*\]|\S+)\s*(?:#\s*(.*))?$', line):
            name = entry[1]
            found[section, name] = entry[2], entry[3] or ""
        elif name and (more := re.match(r"\s+#\s*(.*)$", line)):
            value, comment = found[section, name]
            found[section, name] = value, f"{comment} {more[1]}"
    return found
