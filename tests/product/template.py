"""The template as data: which questions each file reads, and its text for given answers.

ddpgen.rendering.texts renders whole projects, fifty in a second. Here the text of a file is
rendered once for each combination of the answers that this file reads, so that thousands of
projects can be put together in seconds. A test compares them with what copier renders.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jinja2 import meta

from ddpgen.asking import questions
from ddpgen.asking.question import Answers, Question, Value
from ddpgen.fetching import template_source
from ddpgen.rendering import texts
from product.combinations import combinations

TEMPLATE = template_source.template_root()
TEXTS = texts.Template(TEMPLATE, template_source.TAG, questions.load())
ENVIRONMENT = TEXTS.environment
INCLUDE = re.compile(r"\{% include (.+?)(?: ignore missing)? %\}")
QUESTIONS = questions.load().questions
# The values of those that nobody answers are looked up for each of very many rows.
FIXED: Answers = {
    name: questions.load().default(question, {})
    for name, question in QUESTIONS.items()
    if not (isinstance(question.default, str) and "{" in question.default)
}
Frozen = tuple[tuple[str, Value | tuple[str, ...]], ...]  # answers that can be looked up


@cache
def files() -> dict[str, str]:
    """Path in the project -> name of its template, of all files but the one with the answers."""
    paths = {name.replace("{{launch_folder}}", "launch"): name for name in TEXTS.sources}
    unwanted = re.compile(r"(^|/)(__pycache__|\.[a-z]+_cache)/|\.pyc$|_copier_conf")
    return {path: TEXTS.sources[name] for path, name in paths.items() if not unwanted.search(path)}


@cache
def reads(path: str) -> frozenset[str]:
    """The questions that decide whether a file exists and what it says; computed ones resolved."""
    names: set[str] = set()
    for pattern in _leaving_out(path):
        names |= meta.find_undeclared_variables(ENVIRONMENT.parse(pattern))
    if files()[path].endswith(".jinja"):
        for source in sources(files()[path]):
            names |= meta.find_undeclared_variables(ENVIRONMENT.parse(source))
    return resolved(names & QUESTIONS.keys())


def _literals(pattern: str) -> list[str]:
    return re.findall(r"'(/[^']+)'", pattern.replace("/launch*/", "/launch/"))


@cache
def sources(name: str) -> list[str]:
    """The source of a template and of all that it may include."""
    source = (TEMPLATE / name).read_text(encoding="utf-8")
    found = [source]
    for expression in INCLUDE.findall(source):
        used = meta.find_undeclared_variables(ENVIRONMENT.parse("{{" + expression + "}}"))
        evaluate = ENVIRONMENT.compile_expression(expression)
        for answers in combinations(resolved(used)):
            part = evaluate(**context(answers))
            if (TEMPLATE / part).exists():
                found += sources(part)
    return found


def resolved(names: set[str] | frozenset[str]) -> frozenset[str]:
    """Questions that somebody answers, in place of the computed ones that follow from them.

    A question that does not always apply brings those that decide it.
    """
    found: set[str] = set()
    todo = set(names)
    while todo:
        question = QUESTIONS[todo.pop()]
        if not question.computed:
            found.add(question.name)
        todo |= _decided_by(question) - found
    return frozenset(found)


def _decided_by(question: Question) -> set[str]:
    text = str(question.default) if question.computed else str(question.when)
    return meta.find_undeclared_variables(ENVIRONMENT.parse(text)) & QUESTIONS.keys()


def context(answers: Mapping[str, Value]) -> Answers:
    """What templates see: every question with its value."""
    states = list(questions.load().evaluate(answers))
    refused = {state.question.name: state.problem for state in states if state.problem}
    assert not refused, f"{answers}: {refused}"
    return {state.question.name: state.value for state in states}


def _partly(answers: Mapping[str, Value]) -> Answers:
    """The same where the answers are those that one file reads.

    The others have their defaults, which may not go together with them and say nothing to the file.
    """
    seen: Answers = {}
    for name, question in QUESTIONS.items():
        if name in answers:
            seen[name] = answers[name]
        elif name in FIXED:
            seen[name] = FIXED[name]
        else:
            seen[name] = questions.load().default(question, seen)
    return seen


def text(path: str, answers: Mapping[str, Value]) -> str | None:
    """The text of a project's file; None where the project has no such file."""
    return _text(path, _needed(path, _partly(answers)))


class Kinds(NamedTuple):
    """The distinct texts of a file, and for each of some projects the number of its text."""

    texts: list[str | None]
    numbers: npt.NDArray[np.int32]


def kinds(rows: Sequence[Answers], paths: Iterable[str]) -> Iterator[Kinds]:
    """For each file its texts in projects with these answers; the rows lack no answer it reads."""
    values: dict[str, list[Value | tuple[str, ...] | None]] = {name: [None] for name in QUESTIONS}
    numbers = dict.fromkeys(QUESTIONS, np.zeros(len(rows), np.int32))
    for name in set[str]().union(*rows):
        known: dict[Value | tuple[str, ...] | None, int] = {}
        column = [known.setdefault(_frozen(row.get(name)), len(known)) for row in rows]
        values[name], numbers[name] = list(known), np.array(column, np.int32)
    for path in paths:
        read = _sorted_reads(path)
        together = _together([numbers[name] for name in read], len(rows))
        _, first, groups = np.unique(together, return_index=True, return_inverse=True)
        texts: dict[str | None, int] = {}
        of_group = []
        for row in first:
            needed = ((name, values[name][numbers[name][row]]) for name in read)
            content = _text(path, tuple((n, v) for n, v in needed if v is not None))
            of_group.append(texts.setdefault(content, len(texts)))
        yield Kinds(list(texts), np.array(of_group, np.int32)[groups])


def _together(columns: Sequence[npt.NDArray[np.int32]], length: int) -> npt.NDArray[np.int64]:
    """A number for each row of the columns: equal ones have equal rows."""
    found = np.zeros(length, np.int64)
    for column in columns:
        found = found * (int(column.max(initial=0)) + 1) + column
        found = np.unique(found, return_inverse=True)[1]  # small again
    return found


def columns(rows: Sequence[Answers], paths: Iterable[str]) -> Iterator[list[str | None]]:
    """For each file its texts in projects with these answers."""
    for kind in kinds(rows, paths):
        yield [kind.texts[number] for number in kind.numbers]


def first_of_each(numbers: Sequence[npt.NDArray[np.int32]], length: int) -> list[int]:
    """Where each distinct row of some columns of numbers stands first."""
    return sorted(np.unique(_together(numbers, length), return_index=True)[1].tolist())


def _needed(path: str, answers: Mapping[str, Value]) -> Frozen:
    """Those of the answers that a file reads."""
    given = ((name, _frozen(answers.get(name))) for name in _sorted_reads(path))
    return tuple((name, value) for name, value in given if value is not None)


def _frozen(value: Value | None) -> Value | tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) else value


@cache
def _sorted_reads(path: str) -> list[str]:
    return sorted(reads(path))


@cache
def _text(path: str, frozen: Frozen) -> str | None:
    seen = _seen(frozen)
    left_out = texts.matcher(tuple(questions.load().render(p, seen) for p in _leaving_out(path)))
    return None if left_out(path) else TEXTS.text(files()[path], seen)


@lru_cache(maxsize=64)
def _seen(frozen: Frozen) -> Answers:
    return _partly({k: list(v) if isinstance(v, tuple) else v for k, v in frozen})


@cache
def _leaving_out(path: str) -> list[str]:
    """The expressions by which projects have no such file."""
    return [p for p in TEXTS.patterns if f"/{path}".startswith(tuple(_literals(p)))]


def project(
    answers: Mapping[str, Value], paths: Iterable[str] | None = None
) -> Iterator[tuple[str, str]]:
    """All files of a project, or those that it has of some: path and text."""
    # Whole: a default may follow from an answer that not every file reads.
    whole = _partly(answers)
    for path in files() if paths is None else paths:
        content = _text(path, _needed(path, whole))
        if content is not None:
            yield path, content


def write(answers: Mapping[str, Value], folder: Path, paths: Sequence[str] | None = None) -> None:
    """Write a project, or some of its files; those below the folder that it has not are removed."""
    content = dict(project(answers, paths))
    for path in files() if paths is None else paths:
        file = folder / path
        if path not in content:
            file.unlink(missing_ok=True)
        elif not file.exists() or file.read_text(encoding="utf-8") != content[path]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content[path], encoding="utf-8")
            file.chmod((TEMPLATE / files()[path]).stat().st_mode & 0o777)
