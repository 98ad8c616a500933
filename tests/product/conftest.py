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
    """All projects of a session share what mypy knows of torch; to read torch takes ten seconds."""
    os.environ.setdefault("MYPY_CACHE_DIR", str(shared / "mypy"))
