"""A plug-in for the tests of a generated project: only those that notice one pitfall."""

import tomllib
from pathlib import Path

import pytest

ROWS = Path(__file__).with_name("rows.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pitfall", required=True, help="an id of the catalogue, such as G3")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the pitfall's row, in a project that can still be imported."""
    __import__("train")
    rows: dict[str, list[str]] = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    names = rows[config.getoption("--pitfall")]
    items[:] = [item for item in items if getattr(item, "originalname", item.name) in names]
