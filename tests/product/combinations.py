"""Combinations of answers: all valid ones, and small sets of them that cover what they must.

All of it follows from copier.yml. The same template gives the same sets; a seed gives others.
"""

import hashlib
import heapq
import itertools
from collections.abc import Collection, Hashable, Mapping, Sequence

from ddpgen.asking import questions
from ddpgen.asking.question import Answers, Question, Value

# Numbers and texts have no choices: their default stands for them, unless a test names others.
Values = Mapping[str, Sequence[Value]]


def values(question: Question) -> Sequence[Value]:
    """The values to combine; the one that switches something off comes first."""
    if question.type == "bool":
        return [False, True]
    if question.multiselect and not questions.load().refusal(question, [], {}):
        # Choices that other answers may refuse are in one value by themselves.
        always = [choice.value for choice in question.choices if not choice.validator]
        return [[], always, *([question.values] if always != question.values else [])]
    if question.multiselect:
        sizes = range(1, len(question.values) + 1)
        return [list(c) for size in sizes for c in itertools.combinations(question.values, size)]
    default = questions.load().default
    return question.values or ([default(question, {})] if "{" not in str(question.default) else [])


def combinations(names: Collection[str], others: Values | None = None) -> list[Answers]:
    """All valid combinations of the values of these questions, without those that do not apply.

    Args:
        names: questions that somebody answers.
        others: values for some of them in place of `values`.
    """
    given = {name: values(question) for name, question in _up_to_the_last(names).items()}
    given |= {name: list(choices) for name, choices in (others or {}).items() if name in names}
    # Answers, and all values so far: each question sees those before it, as copier does it.
    rows: list[tuple[Answers, Answers]] = [({}, {})]
    load = questions.load()
    for name, question in _up_to_the_last(names).items():
        following: list[tuple[Answers, Answers]] = []
        for answers, seen in rows:
            default = load.default(question, seen)
            if name not in names or load.render(str(question.when), seen) != "True":
                following.append((answers, {**seen, name: default}))
                continue
            allowed = [v for v in given[name] or [default] if not load.refusal(question, v, seen)]
            following += [({**answers, name: v}, {**seen, name: v}) for v in allowed]
        rows = following
    return [answers for answers, _ in rows]


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
    missing = set(itertools.chain.from_iterable(candidates))
    heap = [(-len(set(features)), index) for index, features in enumerate(candidates)]
    heapq.heapify(heap)
    chosen = []
    while missing:
        gain, index = heapq.heappop(heap)
        now = -len(missing.intersection(candidates[index]))
        if now == gain:  # what others add can only have shrunk since it was counted
            chosen.append(index)
            missing.difference_update(candidates[index])
        elif now:
            heapq.heappush(heap, (now, index))
    return sorted(chosen)


def singles(rows: Sequence[Answers], seed: str = "") -> list[Answers]:
    """A few of the rows in which every value occurs that occurs in any of them."""
    rows = mixed(rows, seed)
    return [rows[index] for index in cover([list(map(str, row.items())) for row in rows])]


def pairs(rows: Sequence[Answers]) -> list[Answers]:
    """A small part of the rows in which every pair of values occurs that occurs in any of them."""
    rows = mixed(rows)
    features = [list(itertools.combinations(map(str, row.items()), 2)) for row in rows]
    return [rows[index] for index in cover(features)]


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
