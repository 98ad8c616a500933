"""Words about a table that can be trained on, and may yet measure something else than is meant."""

from collections.abc import Sequence

from ddpgen.asking.cells import EMPTY, is_number
from ddpgen.asking.column import FEWEST_ROWS, Column
from ddpgen.asking.found import listed, option


def about_split(columns: Sequence[Column], target: Column) -> list[str]:
    """Words about rows that belong together, and yet would be held out one by one."""
    words = []
    for column in columns:
        if column.names_groups and column is not target:
            same = f"{column.name}: several rows of each of {column.values:,}"
            how = f"hold them out together with {option('data.groups', column.name)}"
            words.append(f"{same}: where others are to be predicted for, {how}")
        elif (column.dates and not column.times) or column.rise_with_time:
            chance = f"{column.name}: the rows to hold out are drawn by chance, not the latest"
            words.append(f"{chance}: of later days less may be predicted than is measured")
    return words


def about_target(target: Column) -> list[str]:
    """Words about the column to predict."""
    words = [f"to predict: {target.name} -> {target.task()}"]
    if target.values < 2:
        words.append(f"{target.name} is the same in all rows: nothing can be learnt")
    elif target.task() != "regression" and (rare := target.single()):
        words.append(f"{target.name}: only one row is {rare}: leave such rows out, or join classes")
    if target.gaps:
        words.append(f"leave out the rows without {target.name}: the program refuses them")
    return words


def about_copies(
    rows: Sequence[Sequence[str]], columns: Sequence[Column], target: Column
) -> list[str]:
    """Words about columns that are the target in other words; the first row has the names."""
    names, *cells = rows
    place = names.index(target.name)
    others = [column.name for column in columns if column is not target]
    same = []
    for number in map(names.index, others):
        pairs = [(row[number], row[place]) for row in cells]
        if _is_copy([pair for pair in pairs if all(map(_is_filled, pair))]):
            same.append(names[number])
    if not same:
        return []
    how = f"leave out what is known only afterwards: data.leave_out={listed(same)}"
    return [f"{target.name} follows from {' or '.join(same)} alone: {how}"]


def _is_filled(cell: str) -> bool:
    return bool(cell.strip()) and cell not in EMPTY


def _is_copy(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether each cell of one column has one of the other: often, or in the same order."""
    met = {*pairs}
    sides = [{*side} for side in zip(*met, strict=True)]
    if len(pairs) < FEWEST_ROWS or len(met) < 2 or any(len(side) < len(met) for side in sides):
        return False
    return 2 * len(met) <= len(pairs) or _in_order(met)


def _in_order(met: set[tuple[str, str]]) -> bool:
    """Whether the numbers of one column rise or fall with those of the other."""
    if not all(is_number(cell) for pair in met for cell in pair):
        return False
    behind = [right for _, right in sorted((float(left), float(right)) for left, right in met)]
    return behind in (sorted(behind), sorted(behind, reverse=True))
