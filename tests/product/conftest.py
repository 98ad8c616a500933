"""What tests of trained programs share."""

import os
from pathlib import Path

import pytest

collect_ignore = ["added"]  # files of a project, which a test puts into a copy of the template


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One folder for all workers of a session, for what they share: prepared data."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _types_of_libraries(shared: Path) -> None:
    """What mypy found in torch is kept for all projects of a session: a minute each otherwise."""
    os.environ.setdefault("MYPY_CACHE_DIR", str(shared / "mypy"))
