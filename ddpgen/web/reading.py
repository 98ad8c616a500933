"""Answers as the page gives them, read, and the questions as they stand under these answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ddpgen.asking import answers
from ddpgen.asking.known import LAUNCH_FOLDER
from ddpgen.asking.question import Answers, Choice, Question, Value
from ddpgen.asking.questions import Questionnaire, State
from ddpgen.errors import DdpgenError

Given = Mapping[str, str]
Reply = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """Answers, read.

    Attributes:
        states: all questions.
        answers: those that have an effect.
        problems: why others cannot be, by question; those that do not apply are left out.
    """

    states: list[State]
    answers: Answers
    problems: dict[str, str]


def read(questionnaire: Questionnaire, given: Given) -> Reading:
    """Read answers, whatever they are."""
    found: Answers = {}
    problems = {}
    for name, text in given.items():
        question = questionnaire.questions.get(name)
        if question is None or question.computed or name == LAUNCH_FOLDER:
            continue
        try:
            found[name] = answers.from_native(question, questionnaire.today(name, text))
        except DdpgenError as error:
            problems[name] = error.reason
    states = list(questionnaire.evaluate(found))
    active = {state.question.name for state in states if state.active}
    problems |= {s.question.name: s.problem for s in states if s.active and s.problem}
    problems = {name: problems[name] for name in problems if name in active}
    kept = {name: found[name] for name in found if name in active - problems.keys()}
    return Reading(states, kept, problems)


def values(questionnaire: Questionnaire, reading: Reading) -> dict[str, Value]:
    """Return the values of all questions, as templates see them."""
    return {s.question.name: s.value for s in questionnaire.evaluate(reading.answers)}


def groups(questionnaire: Questionnaire, reading: Reading, given: Given) -> Iterator[Reply]:
    """Yield the groups that copier.yml begins, each with those questions that apply."""
    title = ""
    records: list[Reply] = []
    seen: Answers = {}
    for state in reading.states:
        question = state.question
        if question.meaning.begins:
            if records:
                yield {"title": title, "questions": records}
            title, records = question.meaning.begins, []
        default = questionnaire.default(question, seen)
        if state.active and question.name != LAUNCH_FOLDER:
            record = _record(state, answers.as_text(default), reading.problems, given)
            chosen = [_choice(questionnaire, question, c, seen) for c in question.choices]
            records.append({**record, "choices": chosen})
        seen[question.name] = default if question.name in reading.problems else state.value
    yield {"title": title, "questions": records}


def _record(state: State, default: str, problems: Mapping[str, str], given: Given) -> Reply:
    name = state.question.name
    refused = name in problems
    return {
        "name": name,
        "help": state.question.help,
        "kind": _kind(state.question),
        "value": given.get(name, default) if refused else answers.as_text(state.value),
        "default": default,
        "given": name in given,
        "asked": state.question.ask,
        "problem": problems.get(name, ""),
    }


def _choice(
    questionnaire: Questionnaire, question: Question, choice: Choice, seen: Answers
) -> Reply:
    value: Value = [choice.value] if question.multiselect else choice.value
    refused = questionnaire.refusal(question, value, seen)
    return {"value": choice.value, "words": choice.words, "refused": refused}


def _kind(question: Question) -> str:
    if question.choices:
        return "several" if question.multiselect else "one"
    return question.type


def numbers(questionnaire: Questionnaire, seen: Mapping[str, Value]) -> Iterator[Reply]:
    """Yield the numbers that are always in view, each with its word and how it comes about."""
    for question in questionnaire.questions.values():
        if word := question.meaning.number:
            how = questionnaire.render(question.help, seen)
            yield {"word": word, "value": seen[question.name], "how": how}
