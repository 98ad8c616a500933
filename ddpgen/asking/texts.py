"""Texts with labels: which column of a table holds the texts, and which one their classes."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ddpgen.asking.column import IDENTIFIER, Column
from ddpgen.asking.found import Found, number, option

# Usual names, also as words of longer ones: "Review Text". Of labels the first one counts.
TEXTS = ("text", "review", "tweet", "body", "sentence", "content", "message", "comment")
LABELS = ("label", "class", "category", "sentiment", "stars", "rating", "topic")


class Labelled(NamedTuple):
    """The columns of texts and of labels, and what to say about the others."""

    text: Column
    label: Column
    words: list[str]


def text_and_label(columns: Sequence[Column]) -> Labelled | None:
    """The column of texts and that of labels, where these are what the table is about.

    Beside them may be what nothing can be learnt from, and, where both have usual names, one more.
    """
    prose = [column for column in columns if column.is_prose] or _short_texts(columns)
    others = [column for column in columns if column not in prose and _could_be_learnt(column)]
    labels = [column for column in others if 2 * column.values <= len(column.cells)]
    if not prose or not labels:
        return None
    text = longest(prose)
    named = sorted((c for c in labels if _rank(c.name, LABELS)), key=_rank_of_label)
    label = [*named, labels[-1]][0]
    further = [column for column in others if column not in [label, *named]]
    if len(further) > bool(named and _rank(text.name, TEXTS) and text.is_prose):
        return None
    return Labelled(text, label, _words(columns, prose, text, label))


def _short_texts(columns: Sequence[Column]) -> list[Column]:
    """Columns of a few words that are texts by their names."""
    named = [column for column in columns if _rank(column.name, TEXTS)]
    return [c for c in named if c.tells_rows_apart and not (c.numbers or c.codes or c.dates)]


def longest(prose: Sequence[Column]) -> Column:
    """The longest texts, of columns with usual names where there are such."""
    usual = [column for column in prose if _rank(column.name, TEXTS)]
    return max(usual or prose, key=lambda column: column.length)


def alone(prose: Sequence[Column]) -> Column | None:
    """The one column of texts, or the longest of those with usual names."""
    usual = any(_rank(column.name, TEXTS) for column in prose)
    return longest(prose) if usual or len(prose) == 1 else None


def choice(prose: Sequence[Column], text: Column) -> list[str]:
    """Words about the column that is read, where it is one of several."""
    names = ", ".join(column.name for column in prose)
    words = f"of the texts in {names} only {text.name} is read: join columns to read more of them"
    return [words] if len(prose) > 1 else []


def labelled_texts(size: str, found: Labelled, source: str) -> Found:
    """Texts in one column, and their classes in another."""
    text, label, words = found
    first = f"{size}: texts in {text.name}, {label.values:,} classes in {label.name}"
    names = named(text.name, label.name)
    return Found([first, *words], "labelled texts", [source, *names])


def named(text: str, label: str) -> list[str]:
    """Arguments with the columns of texts and labels."""
    return [option("data.text", text), option("data.label", label)]


def by_names(texts: Sequence[str], others: Sequence[str]) -> tuple[str, str] | None:
    """The columns of texts and labels where only names are known, of texts and of others."""
    text = next((name for name in texts if _rank(name, TEXTS)), "")
    left = [name for name in [*texts, *others] if name != text and not IDENTIFIER.fullmatch(name)]
    labels = sorted((_rank(name, LABELS), name) for name in left if _rank(name, LABELS))
    return (text, labels[0][1]) if text and labels and len(left) <= 2 else None


def alone_by_names(texts: Sequence[str], others: Sequence[str]) -> str:
    """The column of texts to read where there is nothing else, or ""."""
    usual = [name for name in texts if _rank(name, TEXTS)]
    if any(not IDENTIFIER.fullmatch(name) for name in others):
        return ""
    return (usual or [""])[0] if len(texts) > 1 else "".join(texts)


def _could_be_learnt(column: Column) -> bool:
    return column.values > 1 and not column.tells_rows_apart


def _rank(name: str, known: Sequence[str]) -> int:
    """The place of a name among usual ones, from 1 on; 0 where it is none of them."""
    words = re.split(r"[^a-z]+", name.lower())
    return next((n for n, word in enumerate(known, start=1) if word in words), 0)


def _rank_of_label(column: Column) -> int:
    return _rank(column.name, LABELS)


def _words(
    columns: Sequence[Column], prose: Sequence[Column], text: Column, label: Column
) -> list[str]:
    words = choice(prose, text)
    left = [column.name for column in columns if column not in [*prose, label]]
    words += [f"not read: {', '.join(left)}"] if left else []
    words += [] if label.numbers else label.doubts()
    if text.gaps:
        rows = number(text.gaps, "row")
        words.append(f"leave out the {rows} without {text.name}: nothing is learnt from them")
    if label.gaps and not label.marks:
        rows = number(label.gaps, "row")
        words.append(f"leave out the {rows} without {label.name}: the program refuses them")
    return words
