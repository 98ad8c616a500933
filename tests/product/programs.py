"""The trained programs: which options shape them, and which combinations give the same one.

Two kinds of options. Those that a step's files read multiply: every combination of them is a core,
a program of its own that is trained. What the others read is a part of a program, such as what
records metrics: it is trained in every form that it takes, and leaves all other files as they are.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import cache

from ddpgen.asking.question import Answers
from product import template
from product.combinations import (
    bits,
    combinations,
    cover_bits,
    first,
    mixed,
    pairs,
    singles,
    values,
)
from product.kept import kept

ENTRY = "train.py"
CONFIG = "config.toml"
STEP = "steps.py"
# They hold the values of all options; what computes with these is another file.
CONFIG_TYPES = "config.py"
HOLDERS = (CONFIG_TYPES, "engine/state.py")
# What a training step computes and holds depends on these.
STEP_OPTIONS = [
    "model",
    "lora",
    "batch_norm",
    "amp",
    "accumulation",
    "activation_checkpointing",
    "sharding",
    "dynamic_graph",
]
IMPORT = re.compile(r"^[ \t]*((?:from \S+ )?import (?:\([^)]*\)|[^\n]*))", re.MULTILINE)


@kept
def training_files() -> list[str]:
    """What train.py may import, directly or not, in any variant, and its config."""
    return [*imported(ENTRY), CONFIG]


@cache
def imported(entry: str, left_out: Collection[str] = ()) -> list[str]:
    """A file, and what it may import, directly or not, in any variant."""
    names = (path.removesuffix(".py").removesuffix("/__init__") for path in template.files())
    modules = {n.replace("/", "."): p for n, p in zip(names, template.files(), strict=True)}
    found, todo = {*left_out}, {entry}
    while todo:
        path = todo.pop()
        found.add(path)
        rows = combinations(template.reads(path))
        texts = {template.text(path, answers) or "" for answers in rows}
        statements = {statement for text in texts for statement in IMPORT.findall(text)}
        named = {name for statement in statements for name in _modules(statement)}
        todo |= {modules[name] for name in named if name in modules} - found
    return sorted(found - {*left_out})


def _modules(statement: str) -> Iterator[str]:
    """What an import may name; a line of prose that begins like one is none."""
    try:
        tree = ast.parse(statement)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@kept
def options() -> list[str]:
    """The questions with choices that the code of the training program depends on."""
    return _chosen(path for path in training_files() if path.endswith(".py"))


@kept
def separable() -> list[str]:
    """Those of the options that no file of a step reads."""
    assert {STEP, *HOLDERS} <= {*training_files()}, "the rule needs the names of these files"
    step = _chosen(imported(STEP, HOLDERS))
    return [name for name in options() if name not in step]


def _chosen(paths: Iterator[str] | list[str]) -> list[str]:
    names = frozenset().union(*(template.reads(path) for path in paths))
    listed = [template.QUESTIONS[name] for name in template.QUESTIONS if name in names]
    return [question.name for question in listed if question.choices or question.type == "bool"]


def touched(option: str) -> list[str]:
    """The training files that read an option."""
    return [path for path in training_files() if option in template.reads(path)]


def plain(row: Answers, name: str) -> bool:
    """Whether an option is off, or does not apply."""
    off = values(template.QUESTIONS[name])[0]
    return row.get(name, off) == off


def completed(chosen: Answers, asked: Collection[str] = ()) -> Answers:
    """The first combination of the questions (else of all `options`) that has these answers."""
    return first(asked or options(), chosen)


@kept
def every() -> list[Answers]:
    """All valid combinations of the options of training; clusters would be too many."""
    assert "clusters" not in options(), f"no training may depend on it: {touched('clusters')}"
    return combinations(options())


@kept
def every_value() -> list[Answers]:
    """Few of them, with every value."""
    return singles(every())


@kept
def every_pair() -> list[Answers]:
    """Few of them, with every pair of values."""
    return pairs(every())


@kept
def programs() -> list[Answers]:
    """Every distinct training program: the first combination that gives it.

    Where an answer is no more than another value in the config, as HSDP is, the code is the same.
    """
    return distinct(every(), [*code(), CONFIG_TYPES])


@kept
def cores() -> list[Answers]:
    """The programs with everything separable switched off."""
    return [row for row in programs() if all(plain(row, name) for name in separable())]


@kept
def alone() -> list[Answers]:
    """The programs with at most one separable option: each core with each of them."""
    names = separable()
    return [row for row in programs() if sum(not plain(row, name) for name in names) <= 1]


@kept
def parts() -> list[Answers]:
    """Few programs with separable options that have every function which no core has.

    First those with one such option, whose files then differ from a core's by nothing else; then
    those for functions that need several. Functions of one file that depend on different options
    are combined no further than those of two files are: `every_pair` has any two choices, and
    names and types are checked in whole files. The config is a list of values, which every option
    lengthens by itself: of these files each line is trained.
    """
    found = _untrained(cores(), alone(), functions)
    return found + _untrained([*cores(), *found], programs(), functions)


@kept
def forms() -> list[Answers]:
    """Few more, of which any training file has every text, with all that several options do."""
    return _untrained([*cores(), *alone()], programs(), lambda text: [("", text)])


@cache
def code() -> list[str]:
    """The training files but for the config."""
    return [path for path in training_files() if path not in (CONFIG, CONFIG_TYPES)]


def _untrained(
    trained: Sequence[Answers],
    rows: Sequence[Answers],
    units: Callable[[str], Iterable[tuple[str, str]]],
) -> list[Answers]:
    """Few of the rows with all units of code, or lines, that none of the trained programs has."""

    def features(path: str, text: str | None) -> Iterable[Hashable]:
        lines = str(text).splitlines()
        return {(path, *unit) for unit in units(text or "")} if path in code() else lines

    return few_with_all(mixed(rows), [*code(), CONFIG, CONFIG_TYPES], features, trained)


@cache
def functions(text: str) -> frozenset[tuple[str, str]]:
    """The statements of a module and of its classes, each with the name of its class."""
    lines, found = text.splitlines(), set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            found |= {(node.name, _lines(statement, lines)) for statement in node.body}
            node.end_lineno = node.body[0].lineno - 1  # what is left is its head
        found.add(("", _lines(node, lines)))
    return frozenset(found)


def _lines(node: ast.stmt, lines: list[str]) -> str:
    parts = [node, *getattr(node, "decorator_list", [])]
    return "\n".join(lines[min(part.lineno for part in parts) - 1 : node.end_lineno])


def few_with_all(
    rows: Sequence[Answers],
    paths: Sequence[str],
    features: Callable[[str, str | None], Iterable[Hashable]],
    trained: Sequence[Answers] = (),
) -> list[Answers]:
    """Few of the rows that have every feature of these files' texts, but for what others have."""
    numbers: dict[Hashable, int] = {}
    known = 0
    masks, columns = [], []
    for path, (texts, found) in zip(paths, template.kinds([*trained, *rows], paths), strict=True):
        of_text = [bits(features(path, text), numbers) for text in texts]
        for number in set(found[: len(trained)].tolist()):
            known |= of_text[number]
        masks.append(of_text)
        columns.append(found[len(trained) :])
    some = template.first_of_each(columns, len(rows))
    features_of = [
        functools.reduce(operator.or_, (of[n] for of, n in zip(masks, row, strict=True)), 0)
        for row in zip(*(column[some].tolist() for column in columns), strict=True)
    ]
    return [rows[some[index]] for index in cover_bits([of & ~known for of in features_of])]


def distinct(rows: Sequence[Answers], paths: Collection[str]) -> list[Answers]:
    """The first row of each kind: of those that give all these files the same texts."""
    numbers = [kind.numbers for kind in template.kinds(rows, paths)]
    return [rows[index] for index in template.first_of_each(numbers, len(rows))]
