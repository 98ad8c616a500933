"""Says on a terminal how far a long check is."""

import sys
import time
from collections.abc import Collection, Iterator
from typing import TypeVar

T = TypeVar("T")

AFTER = 2.0  # seconds: what is over sooner needs no line
_CLEARED = "\r\x1b[K"


def shown(items: Collection[T], words: str) -> Iterator[T]:
    """The items one by one; how many are done stands on the terminal, and goes at the end.

    Args:
        items: files, or whatever is worked on.
        words: what is done to them, such as "read".
    """
    watched, begin = sys.stderr.isatty(), time.monotonic()
    for number, item in enumerate(items):
        if watched and time.monotonic() - begin > AFTER:
            _write(f"{_CLEARED}{words} {number} of {len(items)} files")
        yield item
    if watched:
        _write(_CLEARED)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
