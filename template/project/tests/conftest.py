"""Once per test session, the server of the ranks starts, and the project's data is prepared."""

import os
from multiprocessing import forkserver

import pytest

import config
from engine import loading, place
from support import common, processes

# The first optimizer step would import torch._dynamo, in every rank again.
processes.CONTEXT.set_forkserver_preload(["support.common", "torch._dynamo"])
for name in {*place.WORLD_OF_ONE, *place.SEVERAL} & {*os.environ}:
    del os.environ[name]  # of the job in which the tests run
forkserver.ensure_running()


@pytest.fixture(scope="session", autouse=True)
def prepared_data() -> None:
    """Prepare the data that config.toml names, as train.py would."""
    os.chdir(common.PROJECT)
    loading.prepare(config.load(config.DEFAULTS, common.SMALL).data)
