"""What the end of a Parquet file says: its columns, its rows and notes about them.

The project reads with pyarrow, which ddpgen does without. Here is as much of Thrift's compact
protocol as the end of such a file is written in.
"""

import struct
from pathlib import Path
from typing import Any, NamedTuple

from ddpgen.errors import DdpgenError, show

MAGIC = b"PAR1"
BYTES = 6  # the type of a column of bytes, which texts are, too
SCHEMA, ROWS, NOTES = 2, 3, 5  # fields of the end
TYPE, NAME, CHILDREN, CONVERTED, LOGICAL = 1, 4, 5, 6, 10  # of a column
UTF_8, STRING = 0, 1  # of CONVERTED and of LOGICAL: a text
DEEPEST = 32  # structs in each other


class Column(NamedTuple):
    """A column, and those that it is made of."""

    name: str
    binary: bool  # bytes that are no text
    parts: tuple["Column", ...]
    text: bool = False


class Parquet(NamedTuple):
    """What the end of a file says."""

    rows: int
    columns: tuple[Column, ...]
    notes: dict[str, bytes]


def read(path: Path) -> Parquet:
    """Read the end of a file.

    Raises:
        DdpgenError: it is no Parquet file, or one that is cut off or encrypted.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        length, magic = struct.unpack("<I4s", file.read(8).rjust(8))
        if magic != MAGIC or length + 8 > size:
            raise _refused(path)
        file.seek(size - 8 - length)
        content = file.read(length)
    try:
        end = _Compact(content).fields(DEEPEST)
        root, *rest = end[SCHEMA]
        columns = iter(rest)
        notes = {note[1].decode(): note.get(2, b"") for note in end.get(NOTES, [])}
        parts = tuple(_column(next(columns), columns) for _ in range(root[CHILDREN]))
        return Parquet(end[ROWS], parts, notes)
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        StopIteration,
        struct.error,
    ) as error:
        raise _refused(path) from error


def _refused(path: Path) -> DdpgenError:
    return DdpgenError(f"--data {show(str(path))}: is no Parquet file, or is cut off")


def _column(about: dict[int, Any], following: Any) -> Column:
    parts = tuple(_column(next(following), following) for _ in range(about.get(CHILDREN, 0)))
    noted = CONVERTED in about or LOGICAL in about
    text = about.get(CONVERTED) == UTF_8 or STRING in about.get(LOGICAL, {})
    is_bytes = about.get(TYPE) == BYTES
    return Column(about[NAME].decode(), is_bytes and not noted, parts, is_bytes and text)


class _Compact:
    """Values of Thrift's compact protocol, one behind the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def fields(self, depth: int) -> dict[int, Any]:
        """A struct: its fields by number."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            found[number] = head & 15 == 1 if head & 15 in (1, 2) else self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if not depth:
            raise ValueError("too deep")
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return struct.unpack("<d", self._bytes(8))[0]
            case 8:
                return self._bytes(self._number())
            case 9 | 10:
                head = self._byte()
                size = self._number() if head >> 4 == 15 else head >> 4
                return [self._value(head & 15, depth - 1) for _ in range(size)]
            case 12:
                return self.fields(depth - 1)
        raise ValueError(f"a value of the kind {kind}")

    def _byte(self) -> int:
        self._place += 1
        return self._content[self._place - 1]

    def _bytes(self, size: int) -> bytes:
        self._place += size
        if self._place > len(self._content):
            raise ValueError("ends too early")
        return self._content[self._place - size : self._place]

    def _number(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)
