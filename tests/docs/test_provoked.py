"""Each symptom of the page is provoked, and goes when the page's remedy is taken.

What takes a cluster, several hosts or long is provoked by a test of its own, which is named here.
What only GPUs show is marked on the page.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ddpgen.rendering.render import render
from docs.page import ROOT
from docs.test_symptoms import rows

SHORT = "train.max_steps=1 log.curve=false"
ALONE = "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR"
TRAIN = "python train.py log.curve=false"
STEP = "steps.train_step(state, step_batch, run.cfg, run.process, run.schedule)\n"
# No compiler, and nothing that was compiled before; the compiler is read when Python starts.
BROKEN = "CXX=/bin/false TORCHINDUCTOR_CACHE_DIR=$PWD/cache $REAL_PYTHON"
LINE = 12 * " "


@dataclass(frozen=True)
class Case:
    """How a symptom comes, and how it goes."""

    wrong: str  # a command that shows it
    right: str  # the same with the remedy
    edits: tuple[tuple[str, str, str, str], ...] = ()  # file, old, wrong and right text
    times: int = 1  # how often the symptom is there, at least
    status: int | None = None  # of the wrong command; None: an error


# Behind the beginning of each symptom, as the page has it.
PROVOKED = {
    "`unknown key": Case(
        f"python train.py --prepare-only run.sede=1 {SHORT}",
        f"python train.py --prepare-only run.seed=1 {SHORT}",
    ),
    "`cannot be divided evenly": Case(
        f"python train.py --processes 2 train.global_batch_size=7 {SHORT}",
        f"python train.py --processes 2 train.global_batch_size=8 {SHORT}",
    ),
    "`... tells of ... tasks": Case(
        f"SLURM_NTASKS=4 python train.py {SHORT}",
        f"SLURM_NTASKS=4 python train.py ddp.expected_world_size=1 {SHORT}",
    ),
    "`of a launcher's variables": Case(
        f"RANK=0 WORLD_SIZE=1 python train.py {SHORT}",
        f"torchrun --standalone --nproc-per-node=1 train.py {SHORT}",
    ),
    "`the launcher expects": Case(
        f"python train.py --processes 2 ddp.expected_world_size=4 {SHORT}",
        f"python train.py --processes 2 ddp.expected_world_size=2 {SHORT}",
    ),
    "`MASTER_ADDR=": Case(
        f"{ALONE}=no.such.host MASTER_PORT=0 python train.py ddp.timeout_seconds=1 {SHORT}",
        f"{ALONE}=127.0.0.1 MASTER_PORT=0 python train.py {SHORT}",
    ),
    "`EADDRINUSE`": Case(
        f"{ALONE}=127.0.0.1 MASTER_PORT=$BUSY python train.py {SHORT}",
        f"{ALONE}=127.0.0.1 MASTER_PORT=0 python train.py {SHORT}",
    ),
    "`there is no such file`": Case(
        f"python train.py --prepare-only data.source=nowhere.csv {SHORT}",
        f"python train.py --prepare-only {SHORT}",
    ),
    "GPU 0 full": Case(
        "ddpgen check .",
        "ddpgen check .",
        edits=(("steps.py", "tensor.to(device, ", 'tensor.to("cuda:0", ', "tensor.to(device, "),),
    ),
    "every line N times": Case(
        f"python train.py --processes 2 {SHORT}",
        f"python train.py --processes 2 {SHORT}",
        edits=(
            (
                "train.py",
                STEP,
                f'{STEP}{LINE}print("a line of the user", flush=True)\n',
                f'{STEP}{LINE}run.reporter.say("a line of the user")\n',
            ),
        ),
        times=2,
        status=0,
    ),
    "loss is NaN": Case(
        f"{TRAIN} optim.lr=1e30 log.every_steps=1 train.max_steps=4",
        f"{TRAIN} optim.lr=1e-4 log.every_steps=1 train.max_steps=4",
        status=2,
    ),
    "`passed over": Case(
        f"{TRAIN} run.name=hurt checkpoint.every_steps=1 train.max_steps=2 && "
        "truncate --size=100 runs/hurt/checkpoints/step_*2.pt && "
        f"{TRAIN} run.name=hurt train.max_steps=2",
        f"{TRAIN} run.name=hurt train.max_steps=2",
        status=0,
    ),
    "`... cannot go on from": Case(
        f"{TRAIN} run.name=first train.max_steps=1 && {TRAIN} run.name=first run.seed=5",
        f"{TRAIN} run.name=other run.seed=5 train.max_steps=1",
    ),
    "`run.compile=true`": Case(
        f"{BROKEN} train.py run.compile=true {SHORT}",
        f"{BROKEN} train.py run.compile=false {SHORT}",
    ),
}
# What the output shows, where the page's words are not those of a program.
SHOWN = {
    "GPU 0 full": r"D4 error|D5 error|\bD[45]\b",
    "every line N times": "a line of the user",
    "loss is NaN": r"skipped [1-9]",
    "`EADDRINUSE`": "EADDRINUSE|address already in use",
    "`run.compile=true`": r"torch\._dynamo|torch\._inductor|InvalidCxxCompiler|compiler",
    "`MASTER_ADDR=": r"MASTER_ADDR=no\.such\.host: .*Errno",
}
ENGINE, TOOLS = "template/project/tests/engine", "template/project/tests/tools"
ELSEWHERE = {
    "`a rank has ended": (
        f"{ENGINE}/test_launch.py.jinja",
        "test_rank_that_hangs_is_ended_when_another_has_failed",
    ),
    "`local rank 1 needs GPU 1": (
        f"{ENGINE}/test_devices.py.jinja",
        "test_wrong_surroundings_are_named",
    ),
    "it hangs before the first line": (
        "tests/clusters/test_preflight.py",
        "test_the_one_pair_that_cannot_talk_is_named",
    ),
    "it works on one node": (
        "tests/clusters/test_preflight.py",
        "test_hosts_whose_own_names_mean_the_loopback_are_named",
    ),
    "`Expected all tensors": (
        "tests/product/test_placement.py",
        "test_preflight_names_what_stays_on_the_cpu",
    ),
    "`rank 0 has another": (
        "tests/product/test_started_from_python.py",
        "test_run_that_nodes_do_not_share_is_refused",
    ),
    "one GPU busy": (
        "tests/product/test_alone.py",
        "test_what_is_said_of_variables",
    ),
    "`ReplicaError": (
        f"{ENGINE}/test_replicas.py.jinja",
        "test_flipped_bit_is_named",
    ),
    "slower than one GPU": (
        f"{TOOLS}/test_scaling.py.jinja",
        "test_ranks_that_bring_little_are_told",
    ),
    "slower with each node": (
        f"{TOOLS}/test_preflight.py.jinja",
        "test_bandwidth_far_below_the_links_is_noted",
    ),
    "every step waits for one rank": (
        f"{TOOLS}/test_preflight.py.jinja",
        "test_slow_ranks_are_named",
    ),
    "`note: GPU 1 is busy": (
        "tests/clusters/test_local.py",
        "test_busy_gpus_are_noted",
    ),
    "ranks wait for data": (
        f"{TOOLS}/test_scaling.py.jinja",
        "test_waiting_for_data_is_told",
    ),
    "CPU ranks slow each other": (
        f"{ENGINE}/test_launch.py.jinja",
        "test_one_machine",
    ),
    "exit code 75": (
        f"{ENGINE}/test_resume.py.jinja",
        "test_signal_to_one_rank_stops_all",
    ),
    "exit code 93": (
        f"{ENGINE}/test_launch.py.jinja",
        "test_start_that_cannot_end_better_is_not_made",
    ),
    "timeout of a collective": (
        f"{ENGINE}/test_run.py.jinja",
        "test_stopped_rank_is_named",
    ),
    "`ranks have ended": (
        "tests/clusters/test_node.py",
        "test_hosts_that_are_left_end_and_say_why",
    ),
}
# The page's command is a test of the project. It fails where a mistake of this row of the catalogue
# is put in.
BY_MISTAKE = {
    "all ranks see the same data": "S1",
    "loss differs from a single GPU": "G2",
    "validation score changes": "S8",
    "a resumed run differs": "K3",
}
ON_GPUS = "*(GPU)*"


def symptoms() -> Iterator[tuple[str, str]]:
    """The first cell of each row, and the second: the tables of symptoms, without NCCL's."""
    for cells in rows():
        yield cells[0], cells[1]


def beginning(symptom: str) -> list[str]:
    """The keys of the tables here that a symptom begins with."""
    return [key for key in (*PROVOKED, *ELSEWHERE, *BY_MISTAKE) if symptom.startswith(key)]


def test_no_symptom_is_left_out() -> None:
    """Each is provoked here or elsewhere, or the page says that only GPUs show it."""
    found = {symptom: beginning(symptom) for symptom, _ in symptoms()}
    for symptom, keys in found.items():
        assert len(keys) == (ON_GPUS not in symptom), symptom
    used = {key for keys in found.values() for key in keys}
    assert used == {*PROVOKED, *ELSEWHERE, *BY_MISTAKE}


@pytest.mark.parametrize("place", ELSEWHERE.values(), ids=ELSEWHERE)
def test_tests_elsewhere_are_there(place: tuple[str, str]) -> None:
    path, name = place
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("key", BY_MISTAKE)
def test_commands_fail_with_the_mistake(key: str) -> None:
    """tests/mutants puts it in, and one of the tests that the page's command selects fails."""
    (command,) = (decide for symptom, decide in symptoms() if symptom.startswith(key))
    found = re.search(r"`pytest (\S+?)(?: -k (\w+))?`", command)
    assert found, command
    selected = (ROOT / "template/project" / f"{found[1]}.jinja").read_text(encoding="utf-8")
    noticing = tomllib.loads((ROOT / "tests/mutants/rows.toml").read_text(encoding="utf-8"))
    assert any(
        f"def {test}(" in selected and (found[2] or "") in test
        for test in noticing[BY_MISTAKE[key]]
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provoked") / "project"
    render({"model": "mlp", "checkpoint": True}, folder)
    return folder


def shown(key: str, output: str) -> int:
    """How often the page's symptom is in an output: its words, where dots stand for anything."""
    if key in SHOWN:
        return len(re.findall(SHOWN[key], output))
    (symptom,) = (symptom for symptom, _ in symptoms() if symptom.startswith(key))
    quoted = re.findall(r"`([^`]*)`", symptom)[0]
    parts = re.split(r"\.{3,}|\b\d+\b", quoted)
    return len(re.findall(".*".join(map(re.escape, parts)), output))


@pytest.mark.parametrize("key", PROVOKED)
def test_symptom_comes_and_goes(key: str, project: Path, forked: Path, tmp_path: Path) -> None:
    case = PROVOKED[key]
    work = tmp_path / "project"
    shutil.copytree(project, work)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        path = os.pathsep.join([str(forked), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
        environment |= {"BUSY": str(busy.getsockname()[1]), "REAL_PYTHON": sys.executable}

        def run(command: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["bash", "-c", command],
                cwd=work,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
                check=False,
            )

        for file, old, wrong, _ in case.edits:
            text = (work / file).read_text()
            assert text.count(old) == 1
            (work / file).write_text(text.replace(old, wrong))
        done = run(case.wrong)
        assert shown(key, done.stdout) >= case.times, done.stdout
        if case.status is None:
            assert done.returncode != 0
        else:
            assert done.returncode == case.status, done.stdout
        for file, _, wrong, right in case.edits:
            (work / file).write_text((work / file).read_text().replace(wrong, right))
        done = run(case.right)
        assert done.returncode == 0, done.stdout
        assert shown(key, done.stdout) < case.times, done.stdout
