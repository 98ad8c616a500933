"""Reads TOML files into dataclasses: unknown keys and wrong types are refused, by name."""

import dataclasses
import difflib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

Settings = TypeVar("Settings")

# Types of values, each with the condition that a value has to meet.
Count = Annotated[int, "at least 1 and below 2**31", lambda number: 1 <= number < 2**31]
Natural = Annotated[int, "at least 0 and below 2**31", lambda number: 0 <= number < 2**31]
Seed = Annotated[int, "at least 0", lambda number: number >= 0]
Workers = Annotated[int, "from 0 to 16 a core", lambda n: 0 <= n <= 16 * (os.cpu_count() or 1)]
Positive = Annotated[float, "above 0", lambda number: number > 0]
Amount = Annotated[float, "at least 0, and finite", lambda number: 0 <= number < math.inf]
Fraction = Annotated[float, "above 0 and below 1", lambda number: 0 < number < 1]
Share = Annotated[float, "at least 0 and below 1", lambda number: 0 <= number < 1]
Name = Annotated[str, "a plain folder name", lambda name: Path(name).name == name != ".."]
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


class ConfigError(Exception):
    """A mistake of the user's, which all ranks meet: rank 0 says in one sentence what to do."""


class RankError(ConfigError):
    """A mistake that one rank may meet alone, so that this rank tells it."""


def load(kind: type[Settings], paths: Sequence[Path], overrides: Sequence[str] = ()) -> Settings:
    """Read files into a dataclass; later ones win, overrides last. ConfigError names a bad key."""
    tables: dict[str, Any] = {}
    for path in paths:
        for section, table in _read(path).items():
            tables[section] = tables.get(section, {}) | table if isinstance(table, dict) else table
    for override in overrides:
        _apply(kind, tables, override)
    return typing.cast(Settings, _build(kind, tables, ""))


def folder(key: str, path: str | Path) -> Path:
    """Make the folder that a key of the config names; a ConfigError says where that cannot be."""
    if "$" in str(path):
        raise ConfigError(f"{key} = {path} names a variable that is not set")
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{key}: cannot make {path}: {error.strerror}") from error
    if not os.access(Path(path), os.W_OK):
        raise ConfigError(f"{key}: {path} may not be written")
    return Path(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.expanduser().read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # of TOML, UTF-8, or thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def dump(settings: Any) -> str:
    """The settings as TOML that `load` reads back to an equal object."""
    lines = []
    for section, values in dataclasses.asdict(settings).items():
        lines.append(f"\n[{section}]")
        for key, value in values.items():  # JSON writes all as TOML does, but infinite numbers
            text = str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{key} = {text}")
    return "\n".join(lines).lstrip() + "\n"


def flat(settings: Any) -> dict[str, Any]:
    """Every value by its full name, such as optim.lr."""
    tables = dataclasses.asdict(settings).items()
    return {f"{section}.{key}": value for section, table in tables for key, value in table.items()}


def _apply(kind: type, tables: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    section, dot, key = name.partition(".")
    if not (equals and dot):
        raise ConfigError(f"{override!r} is not of the form section.key=value")
    table = tables.setdefault(section, {})
    if isinstance(table, dict):
        hints = typing.get_type_hints(typing.get_type_hints(kind).get(section, object))
        table[key] = _parsed(text, hints.get(key, Any))  # a key that is not there `_build` refuses


def _parsed(text: str, kind: Any) -> Any:
    """The value of an argument: a text needs no quotes, even if it looks like a number."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return text if kind is str and not isinstance(value, str) else value


def _build(kind: Any, value: Any, where: str) -> Any:
    """Turn a TOML value into `kind`: a dataclass, or the type of a dataclass's field."""
    if dataclasses.is_dataclass(kind):
        return _build_section(kind, value, where)
    if typing.get_origin(kind) is Literal:
        if value not in (allowed := typing.get_args(kind)):
            raise ConfigError(f"{where} = {value!r}: choose one of {json.dumps(allowed)[1:-1]}")
        return value
    if typing.get_origin(kind) is Annotated:
        kind, words, allows = typing.get_args(kind)
        if not allows(built := _build(kind, value, where)):
            raise ConfigError(f"{where} = {built!r} must be {words}")
        return built
    if isinstance(kind, types.GenericAlias):
        if not isinstance(value, list):
            raise ConfigError(f'{where} = {value!r} must be a list, such as ["a", "b"] or [1, 2]')
        return [_build(typing.get_args(kind)[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if type(value) is int and abs(value) >= 2**63:
        raise ConfigError(f"{where} = {value} has more than the 64 bits of a whole number")
    if type(value) is not kind and (kind, type(value)) != (float, int):  # and true is no int
        shown = repr(value) if isinstance(value, str) else value  # a time as 01:30:00
        raise ConfigError(f"{where} = {shown} must be {WORDS.get(kind, kind.__name__)}")
    if kind is str:
        value = os.path.expandvars(f"$HOME{value[1:]}" if value[:2] == "~/" else value)
    return kind(value)


def _build_section(kind: Any, table: Any, where: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is a section: write [{where}] and its keys below it")
    prefix, hints = f"{where}." if where else "", typing.get_type_hints(kind, include_extras=True)
    for key in [name for name in table if name not in hints]:
        near = difflib.get_close_matches(key, hints, n=1, cutoff=0)
        raise ConfigError(f"unknown key {prefix}{key}: did you mean {prefix}{near[0]}?")
    if missing := [prefix + key for key in hints if key not in table]:
        raise ConfigError(f"missing from the config: {', '.join(missing)}")
    return kind(**{key: _build(hint, table[key], prefix + key) for key, hint in hints.items()})
