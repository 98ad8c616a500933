"""What the page asks, and nothing else: the same for Python here and for Python in a browser.

Answers come as texts by name, as `--data` takes them. The page keeps all that its user typed; what
does not apply, or is refused, has no effect until other answers change that.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from ddpgen.asking import answers
from ddpgen.asking.known import LAUNCH_FOLDER, PROJECT_NAME
from ddpgen.asking.question import Answers, Choice, Question, Value
from ddpgen.asking.questions import State
from ddpgen.errors import DdpgenError
from ddpgen.rendering.texts import File, Template
from ddpgen.web import address, archive, difference

Given = Mapping[str, str]
Reply = dict[str, Any]

# What a page may call, by name.
CALLS = ("project", "file", "cost", "read", "archive")


@dataclass(frozen=True)
class _Read:
    """Answers as the page gives them, read.

    Attributes:
        states: all questions.
        answers: those that have an effect.
        problems: why the others cannot be, by question.
    """

    states: list[State]
    answers: Answers
    problems: dict[str, str]


class Interface:
    """Answers the page's calls."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._questionnaire = template.questionnaire
        self._render = lru_cache(maxsize=64)(self._rendered)

    def call(self, name: str, arguments: str) -> str | bytes:
        """Answer a call: its arguments by name and its reply are JSON, or the reply is a zip.

        Raises:
            ValueError, TypeError, KeyError: there is no such call, or not with such arguments.
            DdpgenError: a zip is refused.
        """
        if name not in CALLS:
            raise ValueError(name)
        reply = getattr(self, name)(**_checked(json.loads(arguments)))
        return reply if isinstance(reply, bytes) else json.dumps(reply)

    def project(self, given: Given, base: Given | None = None) -> Reply:
        """Return all that the page shows of a set of answers, but for the text of a file.

        Args:
            given: the answers.
            base: the answers that the project is compared with.
        """
        read = self._read(given)
        project = self._files(read)
        before = project if base is None else self._files(self._read(base))
        compared = difference.compare(before, project)
        needed = answers.differing(self._questionnaire, read.answers, {})
        name = str(self._values(read)[PROJECT_NAME])
        others = {key: value for key, value in needed.items() if key != PROJECT_NAME}
        return {
            "groups": list(self._groups(read, given)),
            "problems": read.problems,
            "numbers": list(self._numbers(read, project)),
            "files": [
                {"path": path, "lines": _lines(project.get(path)), **asdict(how)}
                for path, how in compared.items()
            ],
            "name": name,
            "command": answers.command(name, others),
            "address": address.write(self._template.tag[1:], needed),
        }

    def file(self, given: Given, path: str, base: Given | None = None) -> Reply:
        """Return the lines of a file, each with its mark: kept, new or gone."""
        project = self._files(self._read(given))
        before = project if base is None else self._files(self._read(base))
        texts = [files[path].text if path in files else "" for files in (before, project)]
        return {"path": path, "rows": difference.rows(*texts)}

    def cost(self, given: Given, other: Given) -> Reply:
        """Return what other answers would change, in files and lines, or why they cannot be."""
        read = self._read(other)
        for problem in read.problems.values():
            return {"problem": problem}
        return _sum(difference.compare(self._files(self._read(given)), self._files(read)))

    def read(self, text: str) -> Reply:
        """Return the answers in an address, and a sentence for each that does not fit."""
        try:
            entries = address.read(text)
        except DdpgenError as error:
            return {"given": {}, "words": [str(error)]}
        found, words = address.fitting(self._questionnaire, entries)
        return {"given": {key: answers.as_text(v) for key, v in found.items()}, "words": words}

    def archive(self, given: Given) -> bytes:
        """Return the project as a zip.

        Raises:
            DdpgenError: an answer is refused.
        """
        read = self._read(given)
        for name, problem in read.problems.items():
            raise DdpgenError(problem, option=name)
        return archive.pack(str(self._values(read)[PROJECT_NAME]), self._files(read))

    def _read(self, given: Given) -> _Read:
        found: Answers = {}
        problems = {}
        for name, text in given.items():
            question = self._questionnaire.questions.get(name)
            if question is None or question.computed or name == LAUNCH_FOLDER:
                continue
            try:
                found[name] = answers.from_text(question, text)
            except DdpgenError as error:
                problems[name] = error.reason
        states = list(self._questionnaire.evaluate(found))
        active = {s.question.name for s in states if s.active}
        problems |= {s.question.name: s.problem for s in states if s.active and s.problem}
        problems = {name: problems[name] for name in problems if name in active}
        kept = {name: found[name] for name in found if name in active - problems.keys()}
        return _Read(states, kept, problems)

    def _values(self, read: _Read) -> dict[str, Value]:
        states = self._questionnaire.evaluate(read.answers)
        return {state.question.name: state.value for state in states}

    def _files(self, read: _Read) -> dict[str, File]:
        return self._render(
            tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in read.answers.items())
        )

    def _rendered(self, frozen: tuple[tuple[str, Any], ...]) -> dict[str, File]:
        given = {key: list(v) if isinstance(v, tuple) else v for key, v in frozen}
        return self._template.project(given)

    def _groups(self, read: _Read, given: Given) -> Iterator[Reply]:
        """Yield the groups that copier.yml begins, each with those questions that apply."""
        title = ""
        records: list[Reply] = []
        seen: Answers = {}
        for state in read.states:
            question = state.question
            if question.meaning.begins:
                if records:
                    yield {"title": title, "questions": records}
                title, records = question.meaning.begins, []
            if state.active and question.name != LAUNCH_FOLDER:
                records.append(self._record(state, read, given, seen))
            refused = question.name in read.problems
            seen[question.name] = (
                self._questionnaire.default(question, seen) if refused else state.value
            )
        yield {"title": title, "questions": records}

    def _record(self, state: State, read: _Read, given: Given, seen: Answers) -> Reply:
        question = state.question
        name = question.name
        default = answers.as_text(self._questionnaire.default(question, seen))
        shown = given.get(name, default) if name in read.problems else answers.as_text(state.value)
        return {
            "name": name,
            "help": question.help,
            "kind": _kind(question),
            "choices": [self._choice(question, choice, seen) for choice in question.choices],
            "value": shown,
            "default": default,
            "given": name in given,
            "asked": question.ask,
            "problem": read.problems.get(name, ""),
        }

    def _choice(self, question: Question, choice: Choice, seen: Answers) -> Reply:
        value: Value = [choice.value] if question.multiselect else choice.value
        why = self._questionnaire.refusal(question, value, seen)
        return {"value": choice.value, "words": choice.words, "refused": why}

    def _numbers(self, read: _Read, project: Mapping[str, File]) -> Iterator[Reply]:
        """Yield the numbers that are always in view, with their words."""
        values = self._values(read)
        for question in self._questionnaire.questions.values():
            if question.meaning.number:
                words = self._questionnaire.render(question.help, values)
                yield {
                    "word": question.meaning.number,
                    "value": values[question.name],
                    "how": words,
                }
        yield {"word": "files", "value": len(project), "how": ""}
        yield {"word": "lines", "value": sum(map(_lines, project.values())), "how": ""}


def _checked(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call, which are texts or texts by name.

    Raises:
        TypeError: they are not.
    """
    if not isinstance(arguments, dict):
        raise TypeError(arguments)
    for value in arguments.values():
        texts = [*value.values()] if isinstance(value, dict) else [value or ""]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(value)
    return arguments


def _kind(question: Question) -> str:
    if question.choices:
        return "several" if question.multiselect else "one"
    return question.type


def _lines(file: File | None) -> int:
    return len(file.text.splitlines()) if file else 0


def _sum(compared: Mapping[str, difference.Difference]) -> dict[str, int]:
    changed = [how for how in compared.values() if how.kind != difference.SAME]
    return {
        "files": len(changed),
        "added": sum(how.added for how in changed),
        "removed": sum(how.removed for how in changed),
    }
