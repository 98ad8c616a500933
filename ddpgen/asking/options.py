"""The reference of all options, made from the questions: for people, programs and the docs."""

import json
import re
from collections.abc import Iterator
from typing import Literal

from ddpgen.asking import questions
from ddpgen.asking.question import Question
from ddpgen.asking.questions import FORMER, Questionnaire
from ddpgen.errors import show

Form = Literal["text", "json", "markdown"]
_UNASKED = "never asked: give it with --data or --answers, or by a site"


def describe(form: Form) -> str:
    """Return the reference of all options that can be answered.

    Args:
        form: "text" for a terminal, "json" for programs, "markdown" for docs/options.md.
    """
    questionnaire = questions.load()
    asked = [q for q in questionnaire.questions.values() if not q.computed]
    if form == "json":
        return json.dumps([_record(question) for question in asked], indent=2) + "\n"
    if form == "markdown":
        return "\n".join(_markdown(questionnaire, asked))
    return "\n".join(line for question in asked for line in _text(question)) + "\n"


def default_of(question: Question) -> str:
    """Return a default in words: the value, or the expression that gives it."""
    if not isinstance(question.default, str):
        return show(question.default)
    text = question.default.replace("{{", "").replace("}}", "").strip()
    if question.old_name:  # what holds where there is no old answer
        text = re.sub(r"^\w+ \| default\('(.*)'\)$", r"\1", text)
    text = re.sub(rf"^{FORMER}\w+ or '(.*)'$", r"\1", text)
    return text or "empty"


def _record(question: Question) -> dict[str, object]:
    return {
        "name": question.name,
        "help": question.help,
        "type": question.type,
        "several": question.multiselect,
        "choices": [{"value": c.value, "label": c.label} for c in question.choices],
        "default": question.default,
        "when": question.condition or True,
        "asked": question.ask,
    }


def _text(question: Question) -> Iterator[str]:
    kind = "several" if question.multiselect else "one" if question.choices else question.type
    yield f"{question.name}: {question.help}"
    yield f"    {kind}, default {default_of(question)}"
    width = max((len(value) for value in question.values), default=0)
    for choice in question.choices:
        yield f"      {choice.value:<{width}}  {choice.words}"
    if question.condition:
        yield f"    asked when {question.condition}"
    if not question.ask:
        yield f"    {_UNASKED}"
    yield ""


def _markdown(questionnaire: Questionnaire, asked: list[Question]) -> Iterator[str]:
    yield "# Options"
    yield ""
    yield "Generated from `template/copier.yml` by `ddpgen options --markdown`."
    yield ""
    for question in asked:
        yield f"## `{question.name}`"
        yield ""
        yield question.help
        yield ""
        yield f"- Type: {question.type}{', several with commas' if question.multiselect else ''}"
        yield f"- Default: `{default_of(question)}`"
        if question.condition:
            yield f"- Asked when: `{question.condition}`"
        if not question.ask:
            yield f"- {_UNASKED.capitalize()}"
        yield ""
        if question.choices:
            yield "| value | meaning |"
            yield "|---|---|"
            yield from (f"| `{c.value}` | {c.words} |" for c in question.choices)
            yield ""
    computed = [q for q in questionnaire.questions.values() if q.computed]
    yield "## Computed"
    yield ""
    yield "These follow from the answers and cannot be set."
    yield ""
    yield from (f"- `{question.name}` = `{default_of(question)}`" for question in computed)
    yield ""
