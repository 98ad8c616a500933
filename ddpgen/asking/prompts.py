"""Asks what flags did not answer, with a way back from every question and a live line of numbers.

questionary draws the prompts; the two things it lacks, a key that goes back and a line below every
kind of prompt, are added to the prompt_toolkit application that it builds.
"""

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import questionary
from prompt_toolkit.application import Application
from prompt_toolkit.filters import is_done
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import (
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from questionary.prompts.common import InquirerControl

from ddpgen.asking import answers
from ddpgen.asking.question import Answers, Question, Value
from ddpgen.asking.questions import Questionnaire, State
from ddpgen.errors import DdpgenError, show

Suggest = Callable[[str, Mapping[str, Value]], Value | None]

_MARKS = 5  # columns before a choice
_KEYS = "Esc: one step back   Ctrl-C: cancel"


class _BackError(Exception):
    """The user wants the question before this one."""


class Interview:
    """One conversation; `run` returns all answers once the user has confirmed them."""

    def __init__(self, questionnaire: Questionnaire, given: Answers, suggest: Suggest) -> None:
        self._questionnaire = questionnaire
        self._answers = dict(given)
        self._suggest = suggest
        # What was answered before the user went back: shown again instead of the default.
        self._remembered: Answers = {}
        self._asked: list[str] = []

    def run(self) -> Answers:
        """Ask until every question is answered and the summary is confirmed.

        Raises:
            KeyboardInterrupt: the user cancelled.
        """
        while True:
            try:
                state, context = self._pending()
                if state:
                    self._answer(state, context)
                    continue
                change = self._confirm(context)
                if not change:
                    return answers.resolve(self._questionnaire, self._applicable())
                self._forget(change)
            except _BackError:
                if self._asked:
                    self._forget(self._asked[-1])

    def _pending(self) -> tuple[State | None, Answers]:
        """Return the first question without a valid answer, and the answers before it."""
        context: Answers = {}
        for state in self._questionnaire.evaluate(self._answers):
            unanswered = state.question.ask and not state.given
            if state.active and (state.problem or unanswered):
                return state, context
            context[state.question.name] = state.value
        return None, context

    def _answer(self, state: State, context: Answers) -> None:
        name = state.question.name
        if state.given:
            questionary.print(f"{name}={show(state.value)} cannot be: {state.problem}")
            self._forget(name)
        self._answers[name] = self._ask(state.question, context, self._proposal(state, context))
        self._asked = [asked for asked in self._asked if asked != name] + [name]

    def _forget(self, name: str) -> None:
        self._remembered[name] = self._answers.pop(name)
        self._asked = [asked for asked in self._asked if asked != name]

    def _proposal(self, state: State, context: Answers) -> Value:
        """Return what is proposed: the earlier answer, what was detected, or the default."""
        question = state.question
        default = self._questionnaire.default(question, context)
        earlier = self._remembered.get(question.name)
        for value in (earlier, self._suggest(question.name, context), default, *question.values):
            if value is not None and not self._questionnaire.refusal(question, value, context):
                return value
        return default

    def _ask(self, question: Question, context: Answers, proposal: Value) -> Value:
        def problem(value: Value) -> str:
            return self._questionnaire.refusal(question, value, context)

        def check(text: str) -> bool | str:
            try:
                return problem(answers.from_text(question, text)) or True
            except DdpgenError as error:
                return error.reason

        if question.choices and question.multiselect:
            picked = proposal if isinstance(proposal, list) else []
            prompt = questionary.checkbox(
                question.help,
                choices=_choices(question, lambda value: problem([value]), picked),
                validate=lambda values: problem(values) or True,
            )
        elif question.choices:
            prompt = questionary.select(
                question.help, choices=_choices(question, problem), default=str(proposal)
            )
        elif question.type == "bool":
            prompt = questionary.confirm(question.help, default=bool(proposal))
        else:
            prompt = questionary.text(question.help, default=show(proposal), validate=check)
        answer = self._run(prompt, question)
        return answers.from_text(question, answer) if isinstance(answer, str) else answer

    def _confirm(self, context: Answers) -> str:
        """Show all answers; return the name of the one to change, or "" to go on."""
        names = []
        for state in self._questionnaire.evaluate(self._answers):
            if state.active and (state.question.ask or state.given):
                names.append(state.question.name)
            elif state.problem and state.question.name not in self._remembered:
                # A flag gave this answer: what the user answers here applies at that moment.
                questionary.print(f"{state.question.name} is left out: it {state.problem}")
        width = max(map(len, names))
        rows = [
            questionary.Choice(f"change {name:<{width}}  {show(context[name])}", name)
            for name in names
        ]
        prompt = questionary.select(
            "These are your answers.", choices=[questionary.Choice("create the project", ""), *rows]
        )
        return str(self._run(prompt))

    def _applicable(self) -> Answers:
        """Return the answers without those that no longer apply."""
        states = self._questionnaire.evaluate(self._answers)
        return {s.question.name: s.value for s in states if s.active and s.given}

    def _numbers(self, question: Question | None, app: Application[Any]) -> str:
        """Return the computed values that have a help text, under the text that is being typed."""
        current = dict(self._answers)
        if question and not question.choices and question.type != "bool":
            try:
                current[question.name] = answers.from_text(question, app.current_buffer.text)
            except DdpgenError:
                current.pop(question.name, None)
        context: Answers = {}
        words: list[str] = []
        for state in self._questionnaire.evaluate(current):
            context[state.question.name] = state.value
            if state.question.computed and state.question.help:
                words.append(self._questionnaire.render(state.question.help, context))
        return "   ".join(filter(None, words))

    def _run(self, prompt: questionary.Question, question: Question | None = None) -> Any:
        app: Application[Any] = prompt.application

        def lines() -> str:
            columns = app.output.get_size().columns
            words = filter(None, (_cut(app, columns), self._numbers(question, app), _KEYS))
            filled = "\n".join(textwrap.fill(text, max(columns - 2, 8)) for text in words)
            return textwrap.indent(filled, " ")

        toolbar = Window(
            FormattedTextControl(lines),
            height=Dimension(min=2),
            dont_extend_height=True,
            style="class:bottom-toolbar",
        )
        below = ConditionalContainer(toolbar, filter=~is_done)
        focused = app.layout.current_window
        app.layout = Layout(HSplit([app.layout.container, below]), focused_element=focused)
        bindings = [app.key_bindings] if app.key_bindings else []
        app.key_bindings = merge_key_bindings([*bindings, _BACK])
        # How long a lone Esc waits for the rest of an arrow key's code.
        app.ttimeoutlen = 0.1
        return prompt.unsafe_ask()


_BACK = KeyBindings()


@_BACK.add("escape", eager=True)
@_BACK.add("c-b", eager=True)
def _go_back(event: KeyPressEvent) -> None:
    event.app.erase_when_done = True
    event.app.exit(exception=_BackError)


def _cut(app: Application[Any], columns: int) -> str:
    """Return the choice at the cursor where the terminal is too narrow for it, or ""."""
    for control in app.layout.find_all_controls():
        if isinstance(control, InquirerControl):
            words = str(control.get_pointed_at().title)
            return re.sub(" {2,}", ": ", words) if len(words) + _MARKS > columns else ""
    return ""


def _choices(
    question: Question, problem: Callable[[str], str], picked: list[str] | None = None
) -> list[questionary.Choice]:
    width = max(map(len, question.values))
    return [
        questionary.Choice(
            f"{choice.value:<{width}}  {choice.words}",
            choice.value,
            disabled=problem(choice.value) or None,
            checked=choice.value in (picked or ()),
        )
        for choice in question.choices
    ]
