"""The questions of copier.yml, and what follows from answers to them.

copier renders and is the final judge. Its question classes are private and slow to import, so the
expressions of a question (when, default, the validators of choices and of the question) are
evaluated here with the same jinja2, the same filters and the same settings. A test compares both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import yaml
from jinja2.sandbox import SandboxedEnvironment

from ddpgen.asking.question import Meaning, Question, Value, parse
from ddpgen.errors import DdpgenError, show
from ddpgen.fetching import template_source

# A question that only says what became of an earlier version's choices of the question after it.
FORMER = "former_"
COMPUTED = "is computed from other answers and cannot be set"


@dataclass(frozen=True)
class State:
    """A question under a set of answers."""

    question: Question
    active: bool
    value: Value
    given: bool
    problem: str


class Questionnaire:
    """All questions of a template, in order, and the jinja environment that evaluates them.

    Attributes:
        questions: by name.
        settings: those of copier, by name; the names begin with an underscore.
    """

    def __init__(self, template: Path) -> None:
        self._path = template / "copier.yml"
        raw = _read(self._path.read_text(encoding="utf-8"))
        self.settings: dict[str, Any] = {n: entry for n, entry in raw.items() if n[0] == "_"}
        entries = {name: entry for name, entry in raw.items() if name[0] != "_"}
        said = {n: Meaning(**entry["ddpgen"]) for n, entry in entries.items() if "ddpgen" in entry}
        meanings = said or _meanings_today(template)
        self.questions = {n: parse(n, e, meanings.get(n, Meaning())) for n, e in entries.items()}
        self._render = cache(self._compile)
        self._rendered: dict[tuple[str, ...], str] = {}

    @cached_property
    def _environment(self) -> SandboxedEnvironment:
        undefined = {"jinja2.StrictUndefined": jinja2.StrictUndefined}
        envops = self.settings["_envops"]
        options = {**envops, "undefined": undefined[envops["undefined"]]}
        filters = "jinja2_ansible_filters.AnsibleCoreFiltersExtension"
        return SandboxedEnvironment(extensions=[filters], **options)

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The new names of questions by their old ones."""
        return {q.old_name: q.name for q in self.questions.values() if q.old_name}

    @cached_property
    def by_fact(self) -> dict[str, str]:
        """The names of questions by the facts of a machine that answer them."""
        return {q.meaning.fact: q.name for q in self.questions.values() if q.meaning.fact}

    def today(self, name: str, value: object) -> object:
        """Return the name that a choice has now, where the value is its name in an earlier version.

        Args:
            name: a question; `former_NAME` beside it in copier.yml knows the names of its choices.
            value: an answer of whatever type and version.
        """
        former = self.questions.get(f"{FORMER}{name}")
        if former is None or not isinstance(value, str):
            return value
        return self.default(former, {name: value}) or value

    def fitting(self, kind: str) -> dict[str, Value]:
        """Return the answers that fit a kind of data best, as look.py names it."""
        asked = self.questions.values()
        return {q.name: q.meaning.data[kind][0] for q in asked if kind in q.meaning.data}

    def fits(self, kind: str, answers: Mapping[str, Value]) -> bool:
        """Whether answers to all questions fit a kind of data, as look.py names it."""
        asked = [q for q in self.questions.values() if kind in q.meaning.data]
        return all(answers[q.name] in q.meaning.data[kind] for q in asked)

    def misfit(self, kind: str, given: Mapping[str, Value]) -> list[str]:
        """Words about answers that are for no kind of data, where one was found.

        Raises:
            DdpgenError: an answer is for another kind of data, as look.py names them.
        """
        words = []
        for question in (q for q in self.questions.values() if kind in q.meaning.data):
            value, fitting = given.get(question.name), question.meaning.data[kind]
            if value is None or value in fitting:
                continue
            if any(value in values for values in question.meaning.data.values()):
                raise DdpgenError(
                    "does not read what lies at the path that --data names",
                    option=question.name,
                    value=value,
                    allowed=fitting,
                    remedy="give one of these, or leave the path out",
                )
            reads = " or ".join(map(show, fitting))
            words.append(f"{show(value)}: ddpgen has no command for these data, as for {reads}")
        return words

    def _compile(self, source: str) -> tuple[jinja2.Template, tuple[str, ...]]:
        names = jinja2.meta.find_undeclared_variables(self._environment.parse(source))
        return self._environment.from_string(source), tuple(sorted(names))

    def render(self, source: str, context: Mapping[str, Value]) -> str:
        """Render one expression of copier.yml; equal values of its variables give equal texts."""
        if "{" not in source:
            return source
        template, names = self._render(source)
        key = (source, *(repr(context[name]) if name in context else "" for name in names))
        if key not in self._rendered:
            self._rendered[key] = template.render(context)
        return self._rendered[key]

    def evaluate(
        self, given: Mapping[str, Value], earlier: Mapping[str, Value] | None = None
    ) -> Iterator[State]:
        """Walk through the questions as copier does: each sees the values of those before it.

        Args:
            given: answers of the right type, with values among the choices.
            earlier: the recorded answers of a project. A renamed question has the answer to the old
                one as its default, and `X is defined` asks whether a later question is answered.
        """
        context = dict(earlier or {})
        for question in self.questions.values():
            active = self._active(question, context)
            answered = question.name in given
            value = given[question.name] if active and answered else self.default(question, context)
            if active:
                problem = self.refusal(question, value, context)
            else:
                problem = self._why_inactive(question, context) if answered else ""
            # What follows from a refused value is undefined; what follows from the default is not.
            refused = active and answered and problem
            context[question.name] = self.default(question, context) if refused else value
            yield State(question, active, value, answered, problem)

    def default(self, question: Question, context: Mapping[str, Value]) -> Value:
        """Return a question's default under the answers before it."""
        if not isinstance(question.default, str):
            return list(question.default) if question.multiselect else question.default
        text = self.render(question.default, context)
        if question.multiselect:
            return [value for value in question.values if value in _listed(text)]
        if question.type == "bool":
            return text == "True"
        return int(text) if question.type == "int" else text

    def refusal(self, question: Question, value: Value, context: Mapping[str, Value]) -> str:
        """Return why this value cannot be, under the answers before it, or ""."""
        seen = {**context, question.name: value}
        chosen = value if isinstance(value, list) else [value]
        for choice in question.choices:
            if choice.validator and choice.value in chosen:
                reason = self.render(choice.validator, context).strip()
                if reason:
                    return reason
        return self.render(question.validator, seen).strip()

    def _active(self, question: Question, context: Mapping[str, Value]) -> bool:
        if isinstance(question.when, bool):
            return question.when
        return self.render(question.when, context) == "True"

    def _why_inactive(self, question: Question, context: Mapping[str, Value]) -> str:
        if question.computed:
            return COMPUTED
        _, names = self._render(str(question.when))
        here = " and ".join(f"{name} is {show(context[name])}" for name in names)
        return f"does not apply here: it needs {question.condition}, but {here}"


def _read(text: str) -> dict[str, Any]:
    """Read YAML, by libyaml where PyYAML has been built with it: that takes a tenth of the time."""
    compiled = yaml.__with_libyaml__
    found: dict[str, Any] = yaml.load(text, yaml.CSafeLoader) if compiled else yaml.safe_load(text)
    return found


@cache
def _listed(text: str) -> list[str]:
    """Read a list of choices as an expression gives it."""
    found: list[str] = yaml.safe_load(text)
    return found


@cache
def load() -> Questionnaire:
    """Return the questionnaire of the template that this ddpgen renders."""
    return Questionnaire(template_source.template_root())


def _meanings_today(template: Path) -> dict[str, Meaning]:
    """Return what questions mean in this ddpgen's template, by their names of today and before.

    The versions up to 0.4.0 say nothing about their questions, and mean the same.
    """
    if template == template_source.template_root():
        return {}
    today = load()
    meanings = {question.name: question.meaning for question in today.questions.values()}
    return meanings | {old: meanings[new] for old, new in today.renamed.items()}
