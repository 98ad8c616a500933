"""One question as copier.yml defines it; its expressions are still source text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | int | bool | list[str]
Answers = dict[str, Value]

LAUNCH = "launch"
# The default of a question that had another name before.
_RENAMED = re.compile(r"\{\{ (\w+) \| default\(")


@dataclass(frozen=True)
class Choice:
    """One choice: its value, the words for people, and an expression that refuses it."""

    value: str
    label: str
    validator: str = ""

    @property
    def words(self) -> str:
        """The label without the value, where it begins with that."""
        return self.label.removeprefix(f"{self.value}: ")


@dataclass(frozen=True)
class Meaning:
    """What a question means to ddpgen: the entries below `ddpgen:` in copier.yml.

    Attributes:
        concerns: "launch" if it is about where a project runs, so that each set of launch files
            has an answer of its own; "training" if sets follow the project's answer.
        flag: whether a flag of `ddpgen launch` answers it.
        fact: what of a machine answers it, as detect.py names it, or "".
        starts: what starts a job, by choice; `{}` stands for the folder of launch files.
        separator: what joins the list that a site may give instead of a text, or "".
        data: the choices that fit, the best first, by the kind of data that lies at a path, as
            look.py names it.
        begins: the title of the group of questions that begins here, or "".
        number: the word for its value, which the page of `ddpgen web` always shows, or "".
    """

    concerns: str = "training"
    flag: bool = False
    fact: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    data: Mapping[str, Sequence[str]] = field(default_factory=dict)
    begins: str = ""
    number: str = ""


@dataclass(frozen=True)
class Question:
    """One question.

    What is not asked has its default, unless a flag or a file says otherwise.
    """

    name: str
    type: str
    help: str
    choices: tuple[Choice, ...]
    multiselect: bool
    default: Any
    when: str | bool
    ask: bool
    validator: str
    meaning: Meaning

    @property
    def computed(self) -> bool:
        """Whether nobody may answer it: its value always follows from the others."""
        return self.when is False

    @property
    def old_name(self) -> str:
        """Its name in an earlier version, whose answer its default falls back to, or ""."""
        found = _RENAMED.match(str(self.default))
        return found[1] if found else ""

    @property
    def values(self) -> list[str]:
        """The values of its choices."""
        return [choice.value for choice in self.choices]

    @property
    def condition(self) -> str:
        """The expression that says when it applies, or ""."""
        if not isinstance(self.when, str):
            return ""
        return self.when.strip().removeprefix("{{").removesuffix("}}").strip()


def parse(name: str, details: Mapping[str, Any], meaning: Meaning) -> Question:
    """Read a question from its entry in copier.yml."""
    return Question(
        name=name,
        type=details["type"],
        help=details.get("help", ""),
        choices=tuple(
            Choice(spec["value"], label, spec.get("validator", ""))
            if isinstance(spec, dict)
            else Choice(spec, label)
            for label, spec in details.get("choices", {}).items()
        ),
        multiselect=details.get("multiselect", False),
        default=details["default"],
        when=details.get("when", True),
        ask=details.get("ask", True),
        validator=details.get("validator", ""),
        meaning=meaning,
    )
