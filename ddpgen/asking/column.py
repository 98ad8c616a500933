"""One column of a table, and the task that it would be the target of."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

from ddpgen.asking.cells import (
    EMPTY,
    ERRORS,
    LIMIT,
    MARKS,
    UNIT,
    WRITTEN_TIME,
    is_date,
    is_number,
    is_numeral,
)

FEW_VALUES = 20  # so many whole numbers are rather classes
# id, row_id, PassengerId, and what pandas calls the index of rows.
IDENTIFIER = re.compile(r"(?i:(.*[_ .-])?id)|.*[a-z]I[dD]|Unnamed: \d+|__index_level_\d+__")
DIGITS = 15  # of a number; a float of 64 bits may lose more
DAY_IN_DIGITS = re.compile(r"(19|20)\d{6}")
CLOCK = {"time", "timestamp", "date", "datetime", "day", "year", "unix", "epoch"}
FEWEST_ROWS = 10  # of which a count is told from quantities
FEW = 10  # one of so many cells, at most, is another text that stands for an empty cell
STRAY = 20  # one of so many cells, at most, is a mistake among numbers
LONG = 3.0  # words of a cell, in the mean, from which a column is one of texts to read
POINTS, HUNDREDS = re.compile(r"[-+]?[1-9]\d{0,2}[.]\d{3}"), re.compile(r"[-+]?\d{1,3}")
SENTINEL = re.compile(r"-?9{2,}(\.0+)?|-1(\.0+)?")  # such as -999, where nothing is known


@dataclass(frozen=True)
class Column:
    """One column of a table, as far as its first rows tell."""

    name: str
    cells: list[str]  # those that are filled
    gaps: int
    marks: tuple[str, ...] = ()  # texts that stand for an empty cell among numbers, such as "?"
    stray: tuple[int, str] | None = None  # a text among numbers that stands for none: place, cell

    @cached_property
    def numbers(self) -> bool:
        """Whether all cells are numbers, or have to be written as such first."""
        return bool(self.cells) and (self._plain or self.have_marks or self.have_unit)

    @cached_property
    def have_marks(self) -> bool:
        """Whether all cells are numbers, some of them written like 1234,5 or 1.234,5 or $12."""
        return bool(self.cells) and not self._plain and all(map(is_numeral, self.cells))

    @cached_property
    def have_unit(self) -> bool:
        """Whether most cells are numbers with one unit, and more than may be names."""
        if self._plain:  # 8.4E-01 has none
            return False
        found = [UNIT.fullmatch(cell.strip()) for cell in self.cells]
        units = Counter(match[2] for match in found if match)
        unit, count = units.most_common(1)[0] if units else ("", 0)
        values = {match[1] for match in found if match and match[2] == unit}
        return len(values) > FEW_VALUES and 2 * count > len(self.cells)

    @cached_property
    def _plain(self) -> bool:
        return all(map(is_number, self.cells))

    @cached_property
    def dates(self) -> bool:
        """Whether all cells are days or times, also as 20191231, of which no later one is known."""
        written = not self.numbers or all(DAY_IN_DIGITS.fullmatch(c.strip()) for c in self.cells)
        return bool(self.cells) and written and all(map(is_date, self.cells))

    @cached_property
    def times(self) -> bool:
        """Whether no cell names a day: times of a day, or how long something took."""
        return self.dates and all(WRITTEN_TIME.fullmatch(cell.strip()) for cell in self.cells)

    @cached_property
    def rise_with_time(self) -> bool:
        """Whether the rows are in the order of numbers that are called as times are."""
        named = self.numbers and self._plain and CLOCK & {*re.split(r"[^a-z]+", self.name.lower())}
        numbers = [float(cell) for cell in self.cells] if named else []
        return len({*numbers}) > FEW_VALUES and numbers == sorted(numbers)

    @cached_property
    def codes(self) -> bool:
        """Whether the cells only name something by digits: 00123, or more than a float can hold."""
        cells = [cell.strip() for cell in self.cells]
        if not all(map(str.isdecimal, cells)):
            return False
        numbers = {cell for cell in cells if len(cell) > DIGITS}
        lost = len({*map(float, numbers)}) < len(numbers)
        return lost or any(len(cell) > 1 and cell.startswith("0") for cell in cells)

    @cached_property
    def names_in_digits(self) -> bool:
        """Whether `table` would take the cells for quantities, or refuse texts among them."""
        texts = [cell for cell in self.cells if not is_numeral(cell)]
        return self.codes or 0 < 2 * len(texts) < len(self.cells)

    @cached_property
    def values(self) -> int:
        """How many different cells there are."""
        return len(set(self.cells))

    @cached_property
    def tells_rows_apart(self) -> bool:
        """Whether nothing can be learnt: nearly each row has its own text, a date, or a gap."""
        names = self.codes or self.dates or not self.numbers
        own = 2 * self.values > len(self.cells) or self.dates
        return not self.cells or self.counts_rows or (names and own)

    @cached_property
    def counts_rows(self) -> bool:
        """Whether the cells are the numbers of the rows, from 0 or 1 on, or are called so."""
        if self.gaps or len(self.cells) < FEWEST_ROWS:
            return False
        if IDENTIFIER.fullmatch(self.name):
            return self.values == len(self.cells) and all(c.strip().isdecimal() for c in self.cells)
        return any(
            all(cell.strip() == str(number) for number, cell in enumerate(self.cells, begin))
            for begin in (0, 1)
        )

    @cached_property
    def names_groups(self) -> bool:
        """Whether the name is that of a number of something, with several rows of each."""
        return bool(IDENTIFIER.fullmatch(self.name)) and 2 < self.values <= len(self.cells) / 2

    @cached_property
    def is_prose(self) -> bool:
        """Whether the cells are texts to read, rather than names of something."""
        words = sum(len(cell.split()) for cell in self.cells)
        return not (self.numbers or self.dates) and words >= LONG * max(1, len(self.cells))

    @cached_property
    def length(self) -> float:
        """Characters of a cell, in the mean."""
        return sum(map(len, self.cells)) / max(1, len(self.cells))

    def task(self) -> str:
        """The task of data.task that predicts this column."""
        if self.values == 2:
            return "binary"
        whole = self._plain and all(float(cell).is_integer() for cell in self.cells)
        few = self.codes or (self.values <= FEW_VALUES and whole)
        return "regression" if self.numbers and not few else "classes"

    def describe(self) -> str:
        """The column in a few words."""
        kind = "numbers" if self.numbers else "texts" if self.is_prose else "names"
        kind = f"{kind}, not as 1234.5" if self.have_marks or self.have_unit else kind
        kind = ("times" if self.times else "dates") if self.dates else kind
        mark = f" written {' or '.join(map(repr, self.marks))}" if self.marks else ""
        gaps = f", {self.gaps:,} gaps{mark}" if self.gaps else ""
        kind = "codes" if self.codes else kind
        kind = "numbers of the rows" if self.counts_rows else kind
        return f"{self.name}: {kind}, {self.values:,} different{gaps}"

    def single(self) -> str:
        """The values that one cell alone has, in words; "" where there are none."""
        once = [repr(cell) for cell, count in Counter(self.cells).items() if count == 1]
        return " or ".join(once[:FEW])

    def doubts(self) -> list[str]:
        """Words about cells that may mean something else than `table` takes them for."""
        if self.numbers and self._plain:
            return [*self._points(), *self._sentinels()]
        if self.numbers or self.is_prose or self.tells_rows_apart:
            return []
        alike = dict[str, list[str]]()
        for cell in dict.fromkeys(self.cells):
            plain = " ".join(normalize("NFC", cell).casefold().split())
            alike.setdefault(plain, []).append(cell)
        same = [" and ".join(map(repr, cells)) for cells in alike.values() if len(cells) > 1]
        return [f"{self.name}: {same[0]} are different: write them alike"] if same else []

    def _points(self) -> list[str]:
        """Words about points that may stand between thousands."""
        found = [cell.strip() for cell in self.cells]
        pointed = [cell for cell in found if POINTS.fullmatch(cell)]
        if not pointed or not all(POINTS.fullmatch(c) or HUNDREDS.fullmatch(c) for c in found):
            return []
        whole = pointed[0].replace(".", "")
        read = f"{self.name}: {pointed[0]} is read as a fraction"
        return [f"{read}: if {whole} is meant, set data.numbers=1.234,5"]

    def _sentinels(self) -> list[str]:
        """Words about a number that comes often, far below or above all others."""
        times = Counter(self.cells)
        numbers = sorted({float(cell) for cell in times})
        edges = {numbers[0]: numbers[1:], numbers[-1]: numbers[:-1]}
        for cell, count in times.items():
            others = edges.get(float(cell), []) if SENTINEL.fullmatch(cell.strip()) else []
            far = others and min(abs(float(cell) - n) for n in others) > others[-1] - others[0]
            if far and len(others) > 1 and count > 1:
                words = f"{self.name}: {cell} stands {count:,} times, far from all others: "
                gaps = f'data.gaps=["{cell}"]'
                return [f"{words}if nothing is known there, empty these cells, or set {gaps}"]
        return []


def column_of(name: str, cells: Sequence[str]) -> Column:
    """A column without its empty cells, and without texts that stand for them among numbers."""
    written = [cell for cell in cells if cell.strip() and cell not in EMPTY]
    errors = sorted({*written} & ERRORS)
    filled = [cell for cell in written if cell not in ERRORS]
    marks, others, few = _texts_among(filled)
    is_stray = others and few and not IDENTIFIER.fullmatch(name)
    stray = (cells.index(others[0]), others[0]) if is_stray else None
    found = [cell for cell in filled if others or cell not in marks]
    known = errors if others else [*marks, *errors]
    return Column(name, found, len(cells) - len(found), tuple(known), stray)


def _texts_among(filled: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """The texts among numbers: those that stand for empty cells, others, whether these stray."""
    texts = Counter(cell for cell in filled if not is_numeral(cell))
    if 0 < texts.total() < len(filled) and all(LIMIT.fullmatch(text.strip()) for text in texts):
        return [], [*texts], True
    if not 0 < 2 * texts.total() < len(filled):
        return [], [], False
    marks = _marks(texts, len(filled))
    others = [text for text in texts if text not in marks]
    once = all(texts[text] == 1 for text in others)  # what comes again is meant so
    return marks, others, once and (len(others) == 1 or STRAY * len(others) <= len(filled))


def _marks(texts: Counter[str], filled: int) -> list[str]:
    """Those that stand for empty cells: known ones, or the only one, if it is there again."""
    known = sorted(text for text in texts if text.strip().lower() in MARKS)
    alone = len(texts) == 1 < texts.total() and FEW * texts.total() <= filled
    return known or ([*texts] if alone else [])


def lack_names(columns: list[Column]) -> bool:
    """Whether the first row is no header: numbers above numbers, or texts that come again.

    Where all names are whole numbers, they may count the columns: 0, 1, 2.
    """
    texts = [column for column in columns if not column.numbers]
    others = [column.name for column in columns if column.numbers]
    few = [column for column in texts if not column.tells_rows_apart]
    again = bool(few) and all(column.cells.count(column.name) > 1 for column in few)
    fractions = not texts and not all(name.strip().isdecimal() for name in others)
    return (again or fractions) and all(map(is_number, others))
