"""Combinations of answers: all valid ones, and small sets of them that cover what they must.

All of it follows from copier.yml. The same template gives the same sets; a seed gives others.
"""

import functools
import hashlib
import heapq
import itertools
import operator
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from ddpgen.asking import questions
from ddpgen.asking.question import Answers, Question, Value

# Numbers and texts have no choices: their default stands for them, unless a test names others.
Values = Mapping[str, Sequence[Value]]


def values(question: Question, seen: Answers | None = None) -> Sequence[Value]:
    """The values to combine; the one that switches something off comes first.

    Of several choices: none, those that nothing refuses, and all that nothing refuses beside the
    answers that are seen; without these all that there are.
    """
    if question.type == "bool":
        return [False, True]
    load = questions.load()
    if question.multiselect and not load.refusal(question, [], {}):
        always = [choice.value for choice in question.choices if not choice.validator]
        allowed = [
            choice.value
            for choice in question.choices
            if seen is None
            or not choice.validator
            or not load.refusal(question, [choice.value], seen)
        ]
        return [[], always, *([allowed] if always != allowed else [])]
    if question.multiselect:
        sizes = range(1, len(question.values) + 1)
        return [list(c) for size in sizes for c in itertools.combinations(question.values, size)]
    default = load.default
    return question.values or ([default(question, {})] if "{" not in str(question.default) else [])


def combinations(names: Collection[str], others: Values | None = None) -> list[Answers]:
    """All valid combinations of the values of these questions, without those that do not apply.

    Args:
        names: questions that somebody answers.
        others: values for some of them in place of `values`.
    """
    return list(_combinations(names, others or {}, {}))


def first(names: Collection[str], chosen: Answers) -> Answers:
    """The first of these combinations that has the chosen answers."""
    return next(_combinations(names, {}, chosen))


def _combinations(names: Collection[str], others: Values, chosen: Answers) -> Iterator[Answers]:
    known = _up_to_the_last(names)
    given = {name: values(question) for name, question in known.items() if not _differ(question)}
    given |= {name: list(choices) for name, choices in others.items() if name in names}
    asked, load = list(known), questions.load()

    # Answers, and all values so far: each question sees those before it, as copier does it.
    def deeper(number: int, answers: Answers, seen: Answers) -> Iterator[Answers]:
        if number == len(asked):
            yield answers
            return
        name = asked[number]
        question, default = known[name], load.default(known[name], seen)
        if name not in names or load.render(str(question.when), seen) != "True":
            if name not in chosen:
                yield from deeper(number + 1, answers, {**seen, name: default})
            return
        for value in (given[name] if name in given else values(question, seen)) or [default]:
            if value == chosen.get(name, value) and not load.refusal(question, value, seen):
                yield from deeper(number + 1, {**answers, name: value}, {**seen, name: value})

    return deeper(0, {}, {})


def _differ(question: Question) -> bool:
    """Whether other answers decide which of several choices go together."""
    return question.multiselect and any(choice.validator for choice in question.choices)


def _up_to_the_last(names: Collection[str]) -> dict[str, Question]:
    """The questions up to the last of these, the computed questions too."""
    known = questions.load().questions
    last = max((list(known).index(name) for name in names), default=-1)
    return dict(itertools.islice(known.items(), last + 1))


def cover(candidates: Sequence[Collection[Hashable]]) -> list[int]:
    """Few candidates that together have everything that any of them has; returns their indices.

    Greedy: always the one that adds most, the first of equals. allpairspy gives no fewer pairs, and
    may miss some where combinations are forbidden.
    """
    numbers: dict[Hashable, int] = {}
    return cover_bits([bits(features, numbers) for features in candidates])


def cover_bits(candidates: Sequence[int]) -> list[int]:
    """The same; what a candidate has are the bits of a number."""
    missing = functools.reduce(operator.or_, candidates, 0)
    heap = [(-features.bit_count(), index) for index, features in enumerate(candidates)]
    heapq.heapify(heap)
    chosen = []
    while missing:
        gain, index = heapq.heappop(heap)
        now = -(missing & candidates[index]).bit_count()
        if now == gain:  # what others add can only have shrunk since it was counted
            chosen.append(index)
            missing &= ~candidates[index]
        elif now:
            heapq.heappush(heap, (now, index))
    return sorted(chosen)


def bits(features: Iterable[Hashable], numbers: dict[Hashable, int]) -> int:
    """A number whose bits are the features; each has a bit of its own."""
    found = {numbers.setdefault(feature, len(numbers)) for feature in features}
    return sum(map((1).__lshift__, found))


def singles(rows: Sequence[Answers], seed: str = "") -> list[Answers]:
    """A few of the rows in which every value occurs that occurs in any of them."""
    rows = mixed(rows, seed)
    return [rows[index] for index in cover([list(map(str, row.items())) for row in rows])]


def pairs(rows: Sequence[Answers]) -> list[Answers]:
    """A small part of the rows in which every pair of values occurs that occurs in any of them.

    Where several choices are one answer, each of them is a value, chosen or not; and every such
    answer occurs.
    """
    rows = mixed(rows)
    numbers: dict[Hashable, int] = {}
    places: dict[str, list[int]] = {}  # of each answer
    for name, value in {str(item): item for row in rows for item in row.items()}.values():
        found = (numbers.setdefault(of, len(numbers)) for of in _single_values(name, value))
        places[str((name, value))] = list(found)
    answers = {answer: 1 << len(numbers) ** 2 + n for n, answer in enumerate(places)}
    features = []
    for row in rows:
        given = [str(item) for item in row.items()]
        squared = _squared([place for answer in given for place in places[answer]], len(numbers))
        features.append(sum(answers[answer] for answer in given) | squared)
    return [rows[index] for index in cover_bits(features)]


def _squared(places: Sequence[int], size: int) -> int:
    """A bit for each pair of these places, of which there are so many."""
    row = sum(1 << place for place in places)
    return functools.reduce(operator.or_, (row << place * size for place in places), 0)


def _single_values(name: str, value: Value) -> list[Hashable]:
    """An answer; in place of one with several choices, for each whether it is chosen."""
    if isinstance(value, list):
        choices = questions.load().questions[name].values
        return [(name, choice, choice in value) for choice in choices]
    return [(name, value)]


def mixed(rows: Sequence[Answers], seed: str = "") -> list[Answers]:
    """The rows in an order without order, always the same one for a seed.

    What is free to choose in a small set is then on as often as off.
    """

    def key(row: Answers) -> bytes:
        return hashlib.sha256(f"{seed}{identifier(row)}".encode()).digest()

    return sorted(rows, key=key)


def identifier(answers: Answers) -> str:
    """A name for tests and `-k`: what is switched on, in the order of the questions."""
    parts = []
    for name, value in answers.items():
        if isinstance(value, bool):
            parts += [name] * value
        elif value not in ("off", "none"):
            parts.append("+".join(value) if isinstance(value, list) else str(value))
    return "-".join(parts)
