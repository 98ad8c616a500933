"""Once per test session, the project's data is prepared."""

import os

import pytest

import config
from engine import loading
from support import common


@pytest.fixture(scope="session", autouse=True)
def prepared_data() -> None:
    """Prepare the data that config.toml names, as train.py would."""
    os.chdir(common.PROJECT)
    loading.prepare(config.load(config.DEFAULTS, common.SMALL).data)
