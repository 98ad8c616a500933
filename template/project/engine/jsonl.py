"""JSON of the user's files: errors name the place, and what no tokenizer takes is refused."""

import json
from typing import Any

import config


def line(text: str, place: str) -> Any:
    """The record of a line; raises ConfigError where the line is no JSON."""
    try:
        return loads(text, place)
    except json.JSONDecodeError as error:
        reason = f"from column {error.colno} on: {error.msg}"
        raise config.ConfigError(f"{place} is no JSON {reason}") from error


def loads(text: str, place: str) -> Any:
    """As `json.loads`; raises ConfigError also for what no tokenizer takes.

    That is half of a character, such as `\\ud83d` alone, and lists in lists, thousands deep.
    """
    try:
        found = json.loads(text)
        if "\\ud" in text.lower():  # the only way to write half of a character
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise config.ConfigError(f"{place} has half of a character, {half}: remove it") from error
    except RecursionError as error:
        raise config.ConfigError(f"{place} is nested too deeply: leave the record out") from error
    return found
