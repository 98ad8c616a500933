"""A plug-in for the tests of a generated project: only those that name one pitfall."""

import re

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pitfall", required=True, help="an id of the catalogue, such as G3")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what names it, in a project that can still be imported."""
    __import__("train")
    named = re.compile(rf"\b{config.getoption('--pitfall')}\b")
    items[:] = [item for item in items if named.search(str(getattr(item, "obj", None).__doc__))]
