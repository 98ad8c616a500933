"""A page for each rule: what goes wrong, a wrong and a right example, which are also its tests."""

from pathlib import Path

from ddpgen import documents
from ddpgen.checking import rules, suppressions
from ddpgen.checking.registry import SEVERITIES
from ddpgen.errors import DdpgenError, nearest, show


def folder() -> Path:
    """Where the pages are."""
    return documents.folder() / "check"


def ids() -> list[str]:
    """The ids of all rules, in the order of the catalogue."""
    found = {rule.id for rule in rules.RULES}
    return sorted(found, key=lambda name: ("DSGBFKOLU".index(name[0]), int(name[1:])))


def title(name: str) -> str:
    """What a rule is about, in a few words."""
    if name in suppressions.ABOUT:
        return suppressions.ABOUT[name][0]
    first = (folder() / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix(f"# {name}: ")


def messages(name: str) -> str:
    """What is reported for an id, as a list."""
    found = [rule for rule in rules.RULES if rule.id == name]
    return "".join(f"- {rule.severity}: {rule.why}: *{rule.remedy}*.\n" for rule in found)


def explain(name: str) -> str:
    """The page of a rule, with its messages.

    Raises:
        DdpgenError: there is no such rule.
    """
    name = name.upper()
    if name not in ids():
        remedy = nearest(name, ids()) or "`ddpgen check --list` lists all"
        raise DdpgenError("there is no such rule", option=show(name), remedy=remedy)
    text = (folder() / f"{name}.md").read_text(encoding="utf-8")
    return f"{text.rstrip()}\n\n## What is reported\n\n{messages(name)}"


def listing() -> str:
    """All rules, a line each."""
    return "".join(f"{name:<4} {'/'.join(severities(name)):<20} {title(name)}\n" for name in ids())


def severities(name: str) -> list[str]:
    """How bad it is what is reported for an id, from the worst."""
    found = {rule.severity for rule in rules.RULES if rule.id == name}
    return [severity for severity in SEVERITIES if severity in found]
