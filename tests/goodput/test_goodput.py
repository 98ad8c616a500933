"""The short edition of `make goodput`: half a minute of steps, and two faults."""

from collections.abc import Iterator

import pytest

from goodput.faults import FAULTS, Planned, happen
from goodput.lab import HOSTS, Lab, lab
from goodput.measure import usual
from tests.clusters import network, ssh_lab
from tests.clusters.checkpoints import assert_same, last_checkpoint

STEPS, STEP = 300, 0.1  # seconds of a step
SECONDS = 900  # at most, of a whole job on a machine that does much else
CHOSEN = ("a rank is killed", "the disk is full")


@pytest.fixture  # a second try has hosts and runs of its own
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    network.skip_without(ssh_lab.PROGRAMS)
    with lab(tmp_path_factory.mktemp("goodput"), STEPS, network.environment()) as found:
        yield found


def test_job_with_faults_ends_as_an_undisturbed_one_and_names_each(made: Lab) -> None:
    undisturbed = made.start("undisturbed", 0.0)
    assert undisturbed.finish(SECONDS) == 0, undisturbed.end_of_log()
    job = made.start("disturbed", STEP)
    faults = [fault for fault in FAULTS if fault.name in CHOSEN]
    happened = [
        happen(made, job, Planned(0.0, fault, HOSTS[number + 1]))
        for number, fault in enumerate(faults)
    ]
    assert all(happened), job.end_of_log()
    assert job.finish(SECONDS) == 0, job.end_of_log()
    assert_same(last_checkpoint(job.run), last_checkpoint(undisturbed.run))


def test_time_of_steps_that_count() -> None:
    steps = [(10.0, 10), (12.0, 20), (14.0, 30), (44.0, 20), (46.0, 30)]  # a restart from step 10
    assert usual(steps) == [0.2, 0.2, 0.2]
