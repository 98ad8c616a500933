"""What was found at a path that somebody wants to train on."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROWS = 1000  # of a table that are looked at
QUOTES = ("'", '"')


class Found(NamedTuple):
    """What lies at a path: in words, which kind of data it is, and arguments of train.py."""

    words: list[str]
    kind: str  # as copier.yml calls it, below `data:`; "" for nothing
    arguments: list[str]
    # More of them, by a choice that may be answered.
    of_choices: Mapping[str, list[str]] = MappingProxyType({})

    def at(self, path: Path) -> "Found":
        """The same at another path."""
        source = f"data.source={path.absolute()}"
        return self._replace(arguments=[source, *self.arguments[1:]])

    def saying(self, words: list[str]) -> "Found":
        """The same with more words."""
        return self._replace(words=[*self.words, *words])

    def arguments_with(self, values: Iterable[object]) -> list[str]:
        """The arguments of train.py, where these are the answers."""
        more = (self.of_choices.get(value, []) for value in values if isinstance(value, str))
        return [*self.arguments, *chain.from_iterable(more)] if self.arguments else []


def path_of(text: str) -> Path:
    """A path as it is written, but for ~: a shell leaves ~ as it is behind = and in quotes."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no such user
        return Path(text)


def option(key: str, text: str) -> str:
    """An argument of train.py, which reads a text in quotes without them."""
    return f"{key}={listed(text) if text.startswith(QUOTES) else text}"


def listed(value: str | list[str]) -> str:
    """A text or a list of texts in TOML, which knows not all escapes of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def number(count: int, thing: str, of: str = "") -> str:
    """Three rows, or 1 row."""
    return f"{count:,} {thing}{'s' if count != 1 else ''} {of}".rstrip()
