"""The rendered SLURM files, submitted to a real controller as a user would."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.slurm_jobs import Job, submit
from tests.clusters.slurm_lab import Lab

ANSWERS = {
    "clusters": ["slurm"],
    "nodes": 2,
    "gpus_per_node": 2,
    "gpu_type": "fake",
    "cpus_per_gpu": 1,
    "partition": "batch",
    "time_limit": "00:30:00",
}
TORCHRUN, DIRECT = "launch/slurm.sbatch", "launch/slurm_direct.sbatch"
# The GPUs of the lab are only counted.
ON_CPU = "ddp.device=cpu"
TRAINED = ("train.max_steps=60", "train.epochs=20", "checkpoint.every_steps=0", ON_CPU)


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS)


@pytest.fixture(scope="module")
def undisturbed(lab: Lab, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The last checkpoint of a job that nobody disturbed: two nodes with two ranks each."""
    job = submit(lab, folder, environment, *TRAINED)
    job.finish()
    return last_checkpoint(job.run)


def test_two_nodes_form_one_world(undisturbed: dict[str, Any]) -> None:
    assert (undisturbed["step"], undisturbed["world_size"]) == (60, 4)


@pytest.mark.thorough
def test_one_node_and_four_train_alike(
    lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """Two ranks and eight share out the same global batches: only roundings of sums differ."""
    histories = []
    for nodes in (1, 4):
        folder = project(**ANSWERS | {"nodes": nodes, "amp": "off"})
        same = ("train.max_steps=20", "train.global_batch_size=64", "model.dropout=0.0")
        job = submit(lab, folder, environment, *TRAINED, *same, "log.every_steps=1")
        job.finish()
        assert last_checkpoint(job.run)["world_size"] == 2 * nodes
        rows = map(json.loads, (job.run / "metrics.jsonl").read_text().splitlines())
        histories.append([row["train_loss"] for row in rows if "train_loss" in row])
    assert len(histories[0]) == 20
    assert histories[0] == pytest.approx(histories[1], rel=1e-4)


@pytest.mark.parametrize("script", [TORCHRUN, pytest.param(DIRECT, marks=pytest.mark.thorough)])
def test_gpus_as_generic_resources(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """Where a site has no --gpus-per-node, and another way to tell how many there are."""
    folder = project(**ANSWERS, gpu_request="gres")
    job = submit(lab, folder, environment, *TRAINED, "train.max_steps=1", script=script)
    job.finish()
    assert last_checkpoint(job.run)["world_size"] == 4


@pytest.mark.parametrize("script", [pytest.param(TORCHRUN, marks=pytest.mark.thorough), DIRECT])
def test_cluster_without_gpus(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    own = {"gpus_per_node": 0, "processes_per_node": 2, "gpu_type": ""}
    job = submit(lab, project(**ANSWERS | own), environment, "train.max_steps=1", script=script)
    job.finish()
    assert last_checkpoint(job.run)["world_size"] == 4


@pytest.mark.parametrize("script", [TORCHRUN, pytest.param(DIRECT, marks=pytest.mark.thorough)])
def test_job_submitted_from_a_session_on_a_node_trains(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """The variables of the session come along, and srun obeys them, or ends at once."""
    folder = project(**ANSWERS, memory="500M")
    limits = ("--gpus=1", "--cpus-per-gpu=1", "--mem-per-cpu=100")
    session = ("salloc", "--quiet", "--partition=batch", *limits)
    sbatch = ("sbatch", "--parsable", script, "train.max_steps=1", ON_CPU)
    number = lab.command(*session, *sbatch, cwd=folder, env=environment)
    job = Job(lab, folder, number)
    job.finish()
    assert last_checkpoint(job.run)["world_size"] == 4


def test_tasks_of_srun_do_not_train_each_for_itself(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    """As a new user tries it, without a launch file."""
    before = {*folder.glob("runs/*")}
    with pytest.raises(RuntimeError) as ended:
        lab.command(
            *("srun", "--ntasks=4", "--partition=batch", sys.executable, "train.py", ON_CPU),
            cwd=folder,
            env=environment,
        )
    said = str(ended.value)
    assert said.count("SLURM_NTASKS tells of 4 tasks or hosts") == 4, said
    assert "Exited with exit code 2" in said
    assert {*folder.glob("runs/*")} == before


@pytest.mark.parametrize("script", [TORCHRUN, DIRECT])
def test_launch_file_within_a_step_says_so(
    script: str, lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    """Its steps would wait for cores that its own step has, until the time limit."""
    gpus = ("--partition=batch", "--gpus-per-node=1")
    with pytest.raises(RuntimeError, match="a step of srun, in which steps wait without end"):
        lab.command("srun", *gpus, "bash", script, cwd=folder, env=environment)


@pytest.mark.thorough
@pytest.mark.disturbed("Its nodes have no GPU that works")
def test_job_that_asked_for_gpus_does_not_train_on_cpus(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(lab, folder, environment, "train.max_steps=1")
    assert "needs GPU 0, but this process sees 0" in job.finish("FAILED")
    assert job.restarts() == 0


@pytest.mark.parametrize(
    ("script", "signal"),
    [
        # What B:USR1@... sends at the time limit, and what USR1@... sends.
        (TORCHRUN, ["--batch", "--signal=USR1"]),
        (DIRECT, ["--signal=USR1"]),
    ],
)
@pytest.mark.disturbed("It is told to save and end")
def test_job_told_to_stop_saves_requeues_itself_and_ends_with_the_same_weights(
    script: str,
    signal: list[str],
    lab: Lab,
    folder: Path,
    environment: dict[str, str],
    undisturbed: dict[str, Any],
) -> None:
    job = submit(lab, folder, environment, *TRAINED, script=script)
    job.wait_for_steps()
    lab.command("scancel", *signal, job.number)
    lab.wait("the requeue", lambda: job.restarts() == 1)
    log = job.finish()
    saved = re.search(r"asked to stop: saved step (\d+)", log)
    assert saved, log
    assert f"continuing from step_{int(saved[1]):08d}.pt" in log
    for start in (1, 2):
        first = rf"start {start} of the job: 4 ranks on 2 hosts: node\d x 2, node\d x 2\npython 3\."
        assert len(re.findall(first, log)) == 1, log
    assert job.restarts() == 1
    assert_same(last_checkpoint(job.run), undisturbed)


@pytest.mark.disturbed("Somebody cancels it")
def test_cancelled_job_does_not_come_back(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(lab, folder, environment, "train.epochs=100000", ON_CPU)
    job.wait_for_steps()
    lab.command("scancel", job.number)
    job.finish("CANCELLED")
    assert job.restarts() == 0


@pytest.mark.thorough
def test_second_job_in_the_folder_of_a_run_is_refused_while_the_first_goes_on(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(lab, folder, environment, "train.epochs=100000", ON_CPU)
    job.wait_for_checkpoint()
    same = {**environment, "RUN": job.run.name}
    log = submit(lab, folder, same, "train.epochs=100000", ON_CPU).finish("FAILED")
    assert f"error: runs/{job.run.name} is held by process " in log
    assert "requeued" not in log
    assert lab.state(job.number) == "RUNNING"
    lab.command("scancel", "--signal=KILL", "--full", job.number)
    lab.wait("the end of the ranks", lambda: lab.state(job.number) != "RUNNING")
    lab.command("scancel", job.number)
    log = submit(lab, folder, same, *TRAINED, "train.max_steps=0", "train.epochs=1").finish()
    assert "continuing from step_" in log


@pytest.mark.thorough
def test_site_made_on_the_cluster_fits_it(
    lab: Lab, tmp_path: Path, environment: dict[str, str]
) -> None:
    """What `ddpgen site new` detects is what `ddpgen launch --site` needs to train there."""
    config = {**environment, "XDG_CONFIG_HOME": str(tmp_path / "config")}

    def ddpgen(*arguments: str, cwd: Path = tmp_path) -> str:
        return lab.command(sys.executable, "-m", "ddpgen", *arguments, cwd=cwd, env=config)

    ddpgen("new", "work", "--defaults")
    folder = tmp_path / "work"
    somebody = ("-c", "user.name=a", "-c", "user.email=a")
    for command in (("init",), ("add", "--all"), (*somebody, "commit", "--message=Begin")):
        lab.command("git", *command, cwd=folder)
    ddpgen("site", "new", "lab")
    ddpgen("site", "check", "lab")
    ddpgen("launch", "--site", "lab", "--nodes=2", cwd=folder)
    arguments = (*TRAINED, "train.max_steps=1")
    job = submit(lab, folder, environment, *arguments, script="launch_lab/slurm.sbatch")
    job.finish()
    assert last_checkpoint(job.run)["world_size"] == 4
