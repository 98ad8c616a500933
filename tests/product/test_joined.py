"""Modules of several projects that are typed in one run."""

from pathlib import Path

import pytest

from product.joined import Joined

SETTINGS = "[tool.mypy]\nstrict = true\n"
CONFIG = "SIZE: int = 3\n"
ENGINE = """\
from collections.abc import (
    Sequence,
)

import config


def total(sizes: Sequence[int]) -> int:
    return config.SIZE + sum(sizes)
"""
TEST = """\
from engine import loading as loader
from support.common import SMALL


def test_total() -> None:
    assert loader.total(SMALL) == 6
"""


def project(**changed: str) -> dict[str, str]:
    files = {
        "config.py": CONFIG,
        "engine/__init__.py": "",
        "engine/loading.py": ENGINE,
        "tests/support/common.py": "SMALL = [1, 2]\n",
        "tests/test_total.py": TEST,
    }
    return files | {f"{name.replace('__', '/')}.py": text for name, text in changed.items()}


def said_of(joined: Joined, tmp_path: Path) -> list[str]:
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    return joined.types(tmp_path / "modules", tmp_path / "pyproject.toml")


def test_what_projects_have_in_common_stands_there_once() -> None:
    joined = Joined()
    for text in ("SMALL = [1, 2]\n", "SMALL = [2, 1]\n"):
        joined.add(project(tests__support__common=text), "", whole=True)
    assert len(joined.texts) == 5 + 2, "two texts, and the test that imports them"


def test_modules_of_the_same_name_do_not_meet(tmp_path: Path) -> None:
    """Each sees those of its own project."""
    other = ENGINE.replace("config.SIZE", "len(config.SIZE)")
    joined = Joined()
    joined.add(project(), "")
    joined.add(project(config='SIZE = "abc"\n', engine__loading=other), "")
    assert not said_of(joined, tmp_path)


def test_text_that_was_judged_before_is_not_judged_again(tmp_path: Path) -> None:
    """Where it is imported by a text that is new. Whole projects are judged whole."""
    changed = project(config='SIZE = "abc"\n', tests__test_total=TEST + "\n")
    for whole in (False, True):
        joined = Joined()
        joined.add(project(), "project 0")
        joined.add(changed, "project 1", whole=whole)
        said = said_of(joined, tmp_path / str(whole))
        named = {line.partition(":")[0] for line in said[:-1]}
        assert named == ({"engine/loading.py of project 1"} if whole else set())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"config": 'SIZE = "abc"\n'}, "engine/loading.py of project 1:9: error:"),
        (
            {"tests__test_total": TEST.replace("SMALL)", "4)")},
            "tests/test_total.py of project 1:6:",
        ),
        ({"engine__loading": ENGINE.replace(" -> int", "")}, "engine/loading.py of project 1:8:"),
    ],
)
def test_mistakes_have_the_place_of_their_project(
    changed: dict[str, str], said: str, tmp_path: Path
) -> None:
    joined = Joined()
    joined.add(project(), "project 0")
    joined.add(project(**changed), "project 1", whole=True)
    first, *_ = said_of(joined, tmp_path)
    assert first.startswith(said)
