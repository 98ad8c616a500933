"""Answers from flags and files: strict about names, types and combinations, validated once.

copier alone ignores unknown names and answers that do not apply, and reads `maybe` as true; none
of that gets past here.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from ddpgen.asking import answer_files
from ddpgen.asking.question import Answers, Question, Value
from ddpgen.asking.questions import COMPUTED, Questionnaire
from ddpgen.errors import DdpgenError, nearest, show

_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NOTHING = ("none", "nothing", "null", "off", "no", "false")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# What copier itself adds to a project's answers file, which may be given as --answers.
_METADATA = ("_commit", "_src_path")


def from_flags(
    questionnaire: Questionnaire, assignments: Iterable[str], flag: str = "--data"
) -> Answers:
    """Read `key=value` flags.

    Args:
        questionnaire: the questions.
        assignments: the flags' values, as the user wrote them.
        flag: what stands before each on the command line, or "", for messages.

    Raises:
        DdpgenError: no `=`, an unknown or repeated key, or a value of the wrong type.
    """
    found: Answers = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            written = f"{flag} {show(assignment)}".lstrip()
            raise DdpgenError(f"{written}: write it as key=value")
        question = _known(questionnaire, key)
        if question.name in found:
            where = f" with {flag}" if flag else ""
            raise DdpgenError(f"given twice{where}", option=question.name)
        found[question.name] = from_native(question, questionnaire.today(question.name, text))
    return found


def from_file(questionnaire: Questionnaire, path: Path) -> Answers:
    """Read a file of answers, TOML if its name ends in .toml and YAML otherwise.

    Raises:
        DdpgenError: the file cannot be read or parsed, or holds a wrong key or value; the
            message names both.
    """
    return from_entries(questionnaire, answer_files.read(path), path)


def from_entries(
    questionnaire: Questionnaire, entries: Mapping[str, object], path: Path
) -> Answers:
    """Check what was read from a file of answers.

    Raises:
        DdpgenError: a wrong key or value.
    """
    with answer_files.errors_naming(path):
        known = {k: _known(questionnaire, k) for k in entries if k not in _METADATA}
        now = {key: questionnaire.today(q.name, entries[key]) for key, q in known.items()}
        return {q.name: from_native(q, now[key]) for key, q in known.items()}


def from_text(question: Question, text: str) -> Value:
    """Read a value as typed on a command line.

    Raises:
        DdpgenError: it is not of the question's type or not among its choices.
    """
    if not text.isprintable():
        raise _bad(question, text, "contains a line break or a control character")
    if question.multiselect:
        words = text.strip().removeprefix("[").removesuffix("]")  # a list as copier takes it
        return _several(question, [w.strip(" \"'") for w in words.split(",")] if words else [])
    if question.type == "bool":
        if text.lower() not in _TRUTH:
            raise _bad(question, text, "is neither true nor false", ("true", "false"))
        return _TRUTH[text.lower()]
    if question.type == "int":
        if not _INTEGER.fullmatch(text):
            digits = f"write it in digits, such as {question.name}=2"
            raise _bad(question, text, "is not a whole number", remedy=digits)
        return int(text)
    return _one(question, text) if question.choices else text


def as_text(value: Value) -> str:
    """Write a value as `from_text` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def command(path: str, needed: Mapping[str, Value]) -> str:
    """Return the command that makes a project without a question.

    Args:
        path: where it makes it.
        needed: the answers that have to be given.
    """
    data = [
        part for name, value in needed.items() for part in ("--data", f"{name}={as_text(value)}")
    ]
    where = path if not path.startswith("-") else f"./{path}"
    return shlex.join(["ddpgen", "new", where, "--defaults", *data])


def from_native(question: Question, value: object) -> Value:
    """Read a value that a file format has already given a type.

    Raises:
        DdpgenError: as `from_text`.
    """
    if isinstance(value, list) and question.multiselect:
        return _several(question, [str(item) for item in value])
    if question.type == "bool" and isinstance(value, bool):
        return value
    if question.type == "int" and isinstance(value, int) and not isinstance(value, bool):
        return from_text(question, str(value))
    if isinstance(value, str):
        return from_text(question, value)
    wanted = {"bool": "true or false", "int": "a whole number", "str": 'text in quotes, "..."'}
    expected = "a list of texts" if question.multiselect else wanted[question.type]
    raise _bad(question, value, f"should be {expected}", question.values)


def resolve(
    questionnaire: Questionnaire,
    given: Mapping[str, Value],
    earlier: Mapping[str, Value] | None = None,
) -> Answers:
    """Complete answers with defaults and return those of all questions that apply.

    Args:
        questionnaire: the questions.
        given: the answers.
        earlier: as `Questionnaire.evaluate`.

    Raises:
        DdpgenError: an answer does not apply, or is refused under the others.
    """
    found: Answers = {}
    for state in questionnaire.evaluate(given, earlier):
        if state.problem:
            value = state.value if state.active else given[state.question.name]
            raise DdpgenError(state.problem, option=state.question.name, value=value)
        if state.active:
            found[state.question.name] = state.value
    return found


def complete(questionnaire: Questionnaire, given: Mapping[str, Value]) -> bool:
    """Return whether every question that applies and would be asked is answered."""
    states = questionnaire.evaluate(given)
    return all(state.given for state in states if state.active and state.question.ask)


def differing(
    questionnaire: Questionnaire, answers: Mapping[str, Value], assumed: Answers
) -> Answers:
    """Return the answers that have to be given, so that defaults supply the rest.

    Args:
        questionnaire: the questions.
        answers: all answers.
        assumed: values that stand in for defaults, such as a project name taken from a path.
    """
    needed: Answers = {}
    context: Answers = {}
    for state in questionnaire.evaluate(answers):
        name = state.question.name
        if state.active:
            expected = assumed.get(name, questionnaire.default(state.question, context))
            if state.value != expected:
                needed[name] = state.value
        context[name] = state.value
    return needed


def _known(questionnaire: Questionnaire, key: str) -> Question:
    """Return the question of this name, or the one that had it in an earlier version."""
    question = questionnaire.questions.get(key)
    if not question and key in questionnaire.renamed:
        question = questionnaire.questions[questionnaire.renamed[key]]
    if question and question.computed:
        raise DdpgenError(COMPUTED, option=key)
    if question:
        return question
    names = [name for name, question in questionnaire.questions.items() if not question.computed]
    remedy = nearest(key, names) or "`ddpgen options` lists all options"
    raise DdpgenError("there is no such option", option=show(key), remedy=remedy)


def _one(question: Question, text: str) -> str:
    if text in question.values:
        return text
    remedy = nearest(text, question.values)
    if question.multiselect and not question.validator and text.lower() in _NOTHING:
        remedy = f"for none of them leave it empty: {question.name}="
    raise _bad(question, text, "is not a choice", question.values, remedy)


def _several(question: Question, items: list[str]) -> list[str]:
    chosen = [_one(question, item) for item in items]
    return [value for value in question.values if value in chosen]


def _bad(
    question: Question,
    value: object,
    reason: str,
    allowed: Iterable[str] = (),
    remedy: str = "",
) -> DdpgenError:
    return DdpgenError(
        reason, option=question.name, value=value, allowed=tuple(allowed), remedy=remedy
    )
