"""How numbers are written in a table: which value of data.numbers reads all of them."""

import re
from collections.abc import Iterator, Sequence

from ddpgen.asking.cells import BELOW, SIGN
from ddpgen.asking.column import Column
from ddpgen.asking.found import option

MARKS = {"1,234.5": (",", "[.]"), "1.234,5": (".", ",")}  # between thousands, before decimals
EITHER = re.compile(r"\D*[1-9]\d{0,2}[.,]\d{3}\D*")  # 1,234 is a thousand or a fraction
CUT = re.compile(r"[-+]?\d([.,]\d+)?E\+\d\d")  # what spreadsheets make of long numbers
LONG = 1e11  # from here on


def _pattern(between: str, point: str) -> re.Pattern[str]:
    mark = f"[{between}'\u2019\u202f\xa0 ]"
    digits = rf"([1-9]\d{{0,2}}({mark}\d{{2,3}})*{mark}\d{{3}}|\d*)({point}\d*)?([eE][-+]?\d+)?"
    sign = rf"\s?{SIGN}?\s?"
    return re.compile(rf"(?=.*\d)([(]|{BELOW}?){sign}{BELOW}?{digits}{sign}[-)]?")


PATTERNS = {name: _pattern(*marks) for name, marks in MARKS.items()}


def arguments(columns: Sequence[Column]) -> list[str]:
    """The argument that reads the numbers of these columns, where one notation alone does."""
    return [option("data.numbers", name) for name in _notation(columns)]


def words(columns: Sequence[Column]) -> Iterator[str]:
    """Words about numbers that are not written as 1234.5, and about what was lost of them."""
    marked = [column for column in columns if column.have_marks]
    names = _notation(columns)
    if names:
        yield f"numbers are written as {names[0]}, with marks or signs, and read so: data.numbers"
    for column in marked if not names else []:
        cell = next((cell for cell in column.cells if EITHER.fullmatch(cell.strip())), "")
        if cell and _fit([column]) == [*MARKS]:
            yield (
                f"{column.name}: {cell} may be a thousand or a fraction: say how numbers are "
                f"written, data.numbers={' or data.numbers='.join(MARKS)}"
            )
        else:
            yield f"{column.name}: write its numbers alike, as 1234.5: the program refuses them"
    for column in columns:
        if column.numbers and all(CUT.fullmatch(cell.strip()) for cell in column.cells):
            yield (
                f"{column.name}: {column.cells[0]} has lost digits, as spreadsheets write long "
                "numbers so: export the column anew as text"
            )


def _notation(columns: Sequence[Column]) -> list[str]:
    """The name of the notation, or nothing: where none is needed, and where it is not clear."""
    marked = [column for column in columns if column.have_marks]
    if not marked:
        return []
    fit = _fit([column for column in columns if column.numbers and not column.have_unit])
    bare = not any("." in cell or "," in cell for column in marked for cell in column.cells)
    return fit[:1] if len(fit) == 1 or bare else []


def _fit(columns: Sequence[Column]) -> list[str]:
    """The notations that all cells are written in."""
    cells = [cell.strip() for column in columns for cell in column.cells]
    return [name for name, known in PATTERNS.items() if all(map(known.fullmatch, cells))]
