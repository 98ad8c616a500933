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
    known = _up_to_the_last(names)
    given = {name: values(question) for name, question in known.items() if not _differ(question)}
    given |= {name: list(choices) for name, choices in (others or {}).items() if name in names}
    # Answers, and all values so far: each question sees those before it, as copier does it.
    rows: list[tuple[Answers, Answers]] = [({}, {})]
    load = questions.load()
    for name, question in known.items():
        following: list[tuple[Answers, Answers]] = []
        for answers, seen in rows:
            default = load.default(question, seen)
            if name not in names or load.render(str(question.when), seen) != "True":
                following.append((answers, {**seen, name: default}))
                continue
            choices = given[name] if name in given else values(question, seen)
            allowed = [v for v in choices or [default] if not load.refusal(question, v, seen)]
            following += [({**answers, name: v}, {**seen, name: v}) for v in allowed]
        rows = following
    return [answers for answers, _ in rows]


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
    return _cover([_bits(features, numbers) for features in candidates])


def _cover(candidates: Sequence[int]) -> list[int]:
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


def _bits(features: Iterable[Hashable], numbers: dict[Hashable, int]) -> int:
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
    values = [_bits(_single_values(row), numbers) for row in rows]
    known: dict[Hashable, int] = {}
    answers = [_bits(map(str, row.items()), known) for row in rows]
    squares = [_squared(bits, len(numbers)) for bits in values]
    features = zip(answers, squares, strict=True)
    chosen = _cover([whole << len(numbers) ** 2 | squared for whole, squared in features])
    return [rows[index] for index in chosen]


def _squared(bits: int, size: int) -> int:
    """A bit for each pair of these bits, of which there are so many."""
    places = (place for place in range(size) if bits >> place & 1)
    return functools.reduce(lambda found, place: found | bits << place * size, places, 0)


def _single_values(row: Answers) -> Iterator[Hashable]:
    """Each answer, and in place of one with several choices whether each is chosen."""
    known = questions.load().questions
    for name, value in row.items():
        if isinstance(value, list):
            yield from ((name, choice, choice in value) for choice in known[name].values)
        else:
            yield name, value


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
