"""A plug-in for the tests of a generated project: only those that are named."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--notice", action="append", required=True, help="the name of a test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep these tests, in a project that can still be imported."""
    __import__("train")
    names = config.getoption("--notice")
    items[:] = [item for item in items if getattr(item, "originalname", item.name) in names]
