"""Options that say how much of the product is run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--programs",
        choices=["pairs", "untracked", "all"],
        default="pairs",
        help="which training programs run: every pair of options (the default); also every "
        "program without a tracker; all",
    )
    parser.addoption(
        "--own-tests",
        choices=["models", "pairs"],
        default="models",
        help="which generated projects run their own tests: enough for every value of every "
        "option (the default), or for every pair",
    )
