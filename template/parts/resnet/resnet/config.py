"""Run-time values: config.toml, read strictly, with overrides from the command line."""

import argparse
import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


class ConfigError(Exception):
    """A mistake of the user's, told in one sentence that says what to do."""


@dataclass(frozen=True)
class Run:
    name: str
    folder: str
    seed: int
    deterministic: bool
    compile: bool
    matmul_precision: Literal["highest", "high", "medium"]


@dataclass(frozen=True)
class Data:
    source: str
    target: str
    folder: str
    validation: float
    split_seed: int
    workers: int


@dataclass(frozen=True)
class Model:
    width: int
    depth: int
    dropout: float


@dataclass(frozen=True)
class Train:
    epochs: int
    max_steps: int
    global_batch_size: int
    clip_norm: float


@dataclass(frozen=True)
class Optim:
    lr: float
    lr_batch_size: int
    lr_scaling: Literal["linear", "sqrt", "none"]
    warmup_steps: int
    final_lr: float
    weight_decay: float
    beta1: float
    beta2: float


@dataclass(frozen=True)
class DDP:
    device: Literal["auto", "cpu", "cuda"]
    backend: Literal["auto", "gloo"]
    timeout_seconds: int
    expected_world_size: int
    bucket_mb: int
    gradient_as_bucket_view: bool


@dataclass(frozen=True)
class Checkpoint:
    every_steps: int
    keep: int


@dataclass(frozen=True)
class Log:
    every_steps: int


@dataclass(frozen=True)
class Config:
    run: Run
    data: Data
    model: Model
    train: Train
    optim: Optim
    ddp: DDP
    checkpoint: Checkpoint
    log: Log


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments that every program of this project takes."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--config", type=Path, default=Path(__file__).with_name("config.toml"))
    arguments.add_argument(
        "overrides", nargs="*", metavar="section.key=value", help="for example optim.lr=1e-3"
    )
    return arguments


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read the file, apply the overrides and check every name and type.

    Raises ConfigError for an unknown, missing or mistyped key, naming the nearest valid one.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for override in overrides:
        _apply(tables, override)
    cfg: Config = _build(Config, tables, "")
    _check(cfg)
    return cfg


def dump(cfg: Config) -> str:
    """The config as TOML that `load` reads back to an equal object."""
    lines = []
    for section, values in dataclasses.asdict(cfg).items():
        lines.append(f"[{section}]")
        # JSON's strings, numbers, booleans and lists are TOML's too.
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()
        ]
        lines.append("")
    return "\n".join(lines)


def _apply(tables: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    section, dot, key = name.partition(".")
    if not (equals and dot):
        raise ConfigError(f"{override!r} is not of the form section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string: nobody wants to quote quotes for the shell
    tables.setdefault(section, {})[key] = value


def _build(kind: Any, value: Any, where: str) -> Any:
    """Turn a TOML value into `kind`, a dataclass or the type of one of its fields."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise ConfigError(f"{where} is a section: write [{where}] and its keys below it")
        return _build_section(kind, value, where)
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            allowed = ", ".join(json.dumps(choice) for choice in typing.get_args(kind))
            raise ConfigError(f"{where} = {json.dumps(value)}: choose one of {allowed}")
        return value
    if isinstance(kind, types.GenericAlias):
        (item,) = typing.get_args(kind)
        if not isinstance(value, list):
            raise ConfigError(f"{where} = {value!r} must be a list")
        return [_build(item, element, f"{where}[{i}]") for i, element in enumerate(value)]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:  # not isinstance: true is an int in Python, but not in a config
        raise ConfigError(f"{where} = {value!r} must be of type {kind.__name__}")
    return value


def _build_section(kind: Any, table: dict[str, Any], where: str) -> Any:
    prefix = f"{where}." if where else ""
    hints = typing.get_type_hints(kind)
    for key in table:
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1, cutoff=0)
            raise ConfigError(f"unknown key {prefix}{key}: did you mean {prefix}{near[0]}?")
    missing = [prefix + key for key in hints if key not in table]
    if missing:
        raise ConfigError(f"missing from the config: {', '.join(missing)}")
    return kind(**{key: _build(hint, table[key], prefix + key) for key, hint in hints.items()})


def _check(cfg: Config) -> None:
    """Refuse values that would only fail, or mislead, much later."""
    positive = {
        "train.epochs": cfg.train.epochs,
        "train.global_batch_size": cfg.train.global_batch_size,
        "train.clip_norm": cfg.train.clip_norm,
        "optim.lr_batch_size": cfg.optim.lr_batch_size,
        "ddp.timeout_seconds": cfg.ddp.timeout_seconds,
        "ddp.bucket_mb": cfg.ddp.bucket_mb,
        "checkpoint.keep": cfg.checkpoint.keep,
        "log.every_steps": cfg.log.every_steps,
    }
    for key, value in positive.items():
        if value <= 0:
            raise ConfigError(f"{key} = {value} must be above 0")
    if Path(cfg.run.name).name != cfg.run.name:
        raise ConfigError(f"run.name = {cfg.run.name!r} must be a plain folder name")
