"""Once per test session, the project's data is prepared."""

import os
from multiprocessing import forkserver

import pytest

import config
from engine import loading
from support import common

forkserver.ensure_running()  # its imports, named in support.processes, take as long as these


@pytest.fixture(scope="session", autouse=True)
def prepared_data() -> None:
    """Prepare the data that config.toml names, as train.py would."""
    os.chdir(common.PROJECT)
    loading.prepare(config.load(config.DEFAULTS, common.SMALL).data)
