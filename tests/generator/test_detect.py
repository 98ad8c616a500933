"""Detection, with small real programs on PATH and a real folder of devices."""

import time
from pathlib import Path

import pytest

from ddpgen.asking import detect, questions
from ddpgen.asking.detect import Detector
from ddpgen.asking.question import Value

QUESTIONNAIRE = questions.load()
ONE_NODE: dict[str, Value] = {"nodes": 1, "partition": ""}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def device(root: Path, name: str, link_layer: str, driver: str = "mlx5_core") -> None:
    (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    port = root / "infiniband" / name / "ports/1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text(f"{link_layer}\n")
    (root / "infiniband" / name / "device").mkdir()
    (root / "infiniband" / name / "device/driver").symlink_to(root / "drivers" / driver)


def test_bare_machine_suggests_nothing(tmp_path: Path, programs: Path) -> None:
    assert list(programs.iterdir()) == []
    detector = Detector(tmp_path / "none")
    several = {**ONE_NODE, "nodes": 2}
    assert {detector.suggest(name, several) for name in QUESTIONNAIRE.questions} == {None}


def test_gpus_are_counted(programs: Path) -> None:
    listing = "GPU 0: A (UUID: GPU-1)\nGPU 1: A (UUID: GPU-2)\n  MIG 1g.5gb Device 0: (UUID: M)"
    install(programs, "nvidia-smi", f'[ "$1" = -L ] && printf "%s\\n" "{listing}"')
    assert Detector().suggest("gpus_per_node", ONE_NODE) == 2


def test_slurm_partitions_and_gpu_types(programs: Path) -> None:
    lines = "cpu|(null)\\nold|gpu:2\\nbig*|gpu:a100:8(S:0-1),shard:4\\nbig*|gpu:v100:4\\n"
    install(
        programs, "sinfo", f'[ "$1 $2" = "--noheader --format=%P|%G|%c|%l|%f" ] && printf "{lines}"'
    )
    detector = Detector()
    assert detector.suggest("clusters", {}) == ["slurm"]
    assert detector.suggest("partition", ONE_NODE) == "big"
    assert detector.suggest("gpu_type", {"partition": "big"}) == "a100"
    assert detector.suggest("gpu_type", {"partition": "old"}) is None
    assert detector.suggest("gpus_per_node", ONE_NODE) == 8


def test_slurm_without_gpus(programs: Path) -> None:
    install(programs, "sinfo", 'echo "cpu*|(null)"')
    detector = Detector()
    assert detector.suggest("clusters", {}) == ["slurm"]
    assert detector.suggest("partition", ONE_NODE) is None


def test_kubernetes_context_beside_slurm(programs: Path) -> None:
    install(programs, "kubectl", '[ "$1 $2" = "config current-context" ] && echo minikube')
    assert Detector().suggest("clusters", {}) == ["kubernetes"]
    install(programs, "sinfo", "exit 0")
    assert Detector().suggest("clusters", {}) == ["slurm", "kubernetes"]
    install(programs, "kubectl", 'echo "error: current-context is not set" >&2; exit 1')
    assert Detector().suggest("clusters", {}) == ["slurm"]


@pytest.mark.parametrize(
    ("link_layer", "driver", "network"),
    [
        ("InfiniBand", "mlx5_core", "infiniband"),
        ("Ethernet", "mlx5_core", "roce"),
        ("Unspecified", "efa", "efa"),
    ],
)
def test_fabric(tmp_path: Path, programs: Path, link_layer: str, driver: str, network: str) -> None:
    assert programs.is_dir()
    device(tmp_path, "dev_0", link_layer, driver)
    detector = Detector(tmp_path / "infiniband")
    assert detector.suggest("network", {"nodes": 2}) == network
    assert detector.suggest("network", {"nodes": 1}) is None
    question = QUESTIONNAIRE.questions["network"]
    assert network in question.values


def test_hanging_and_failing_programs_cost_little_time(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are waited for together, when an answer is needed; a busy machine is slow, too."""
    monkeypatch.setattr(detect, "SECONDS", 6.0)
    for name in ("nvidia-smi", "sinfo", "kubectl"):
        install(programs, name, "exec /bin/sleep 60")
    begin = time.monotonic()
    detector = Detector()
    assert time.monotonic() - begin < 5
    assert detector.suggest("gpus_per_node", ONE_NODE) is None
    assert detector.suggest("clusters", {}) is None
    assert time.monotonic() - begin < 3 * 6.0


def test_garbage_is_no_suggestion(programs: Path) -> None:
    for name in ("nvidia-smi", "sinfo", "kubectl"):
        install(programs, name, "/usr/bin/head -c 3000 /dev/urandom")
    detector = Detector()
    assert detector.suggest("gpus_per_node", ONE_NODE) is None
    assert detector.suggest("partition", ONE_NODE) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("vision", "vision"),
        ("a/b/My Project", "My-Project"),
        ("42-things", "things"),
        ("café", "cafe"),
        ("x.y_z-1", "x.y_z-1"),
        ("end-", "end"),
        ("y" * 200, "y" * 64),
        ("$(id)", "id"),
    ],
)
def test_project_name_from_path(path: str, name: str) -> None:
    assert detect.from_path(QUESTIONNAIRE, Path(path)) == {"project_name": name}


@pytest.mark.parametrize("path", ["1", "x", "日本", "/", "..."])
def test_path_without_a_valid_name(path: str) -> None:
    assert detect.from_path(QUESTIONNAIRE, Path(path)) == {}


def test_project_name_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert detect.from_path(QUESTIONNAIRE, Path()) == {"project_name": "here"}
