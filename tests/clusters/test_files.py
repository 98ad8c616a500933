"""Every variant of every launch file: its form, its names, and what answers cannot do to it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from torch.distributed.run import get_args_parser

from ddpgen import checking
from ddpgen.asking import questions
from ddpgen.asking.question import Answers
from tests.clusters import variants

DATA = Path(checking.__file__).with_name("data")
# Read by others than NCCL, torch or libfabric, with who reads them.
OTHERS = {
    "NCCL_LIB_DIR",  # nccl-env-profile.sh of Google's image
    "PYTORCH_MIOPEN_SUGGEST_NHWC",  # torch that is built for ROCm
}
SHELL = {".sh", ".sbatch"}


def column(file: str, number: int = 0) -> list[str]:
    return [line.split("\t")[number] for line in (DATA / file).read_text().splitlines() if line]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return variants.written(tmp_path_factory.mktemp("variants"), every=True)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> list[Path]:
    """For programs that take long: with every two lines that follow each other, or all."""
    every = request.config.getoption("--programs") == "all"
    files = variants.written(tmp_path_factory.mktemp("scripts"), every)
    return [path for path in files if path.suffix in SHELL]


def test_the_variants_cover_every_question_that_launch_files_read() -> None:
    known = variants.VALUES.keys() | variants.OPTIONAL.keys()
    assert variants.read_by_launch_files() == known


def test_shell_files_are_valid(scripts: list[Path]) -> None:
    # A shell starts a shell faster than this process does.
    each = 'for script; do bash -n "$script" || exit; done'
    subprocess.run(["bash", "-c", each, "each", *scripts], check=True)


def test_shell_files_are_clean(scripts: list[Path]) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck (tests/clusters/install.sh installs it)")
    project = scripts[0].parents[1]
    assert (project / "launch" / "env.sh").exists()  # the others read it, relative to the project
    found = subprocess.run(
        ["shellcheck", "--external-sources", *scripts],
        check=False,
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[:3000]
    assert not [path for path in scripts if "shellcheck disable" in path.read_text()]


def test_shell_files_are_formatted(scripts: list[Path]) -> None:
    found = subprocess.run(
        # It is installed beside Python, and that folder need not be on the PATH.
        [Path(sys.executable).with_name("shfmt"), "--indent", "4", "--diff", *scripts],
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout[:3000]


def test_directives_of_schedulers_come_before_the_first_command(files: list[Path]) -> None:
    directive = re.compile(r"#(SBATCH|PBS|BSUB) -")
    for path in (file for file in files if file.suffix in SHELL):
        lines = path.read_text().splitlines()
        first = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
        late = [line for line in lines[first:] if directive.match(line)]
        assert not late, f"{path}: {late}"
        # A space after the # would make it a comment.
        assert not re.search(r"^#\s+(SBATCH|PBS|BSUB) -", path.read_text(), re.MULTILINE)


def test_variables_are_read_by_their_reader(files: list[Path]) -> None:
    flags = {f"PET_{action.dest.upper()}" for action in get_args_parser()._actions}
    known = {*column("nccl_params.txt"), *column("torch_env.txt"), *column("fi_env.txt"), *OTHERS}
    families = "NCCL|TORCH|GLOO|FI|TORCHELASTIC|PYTORCH|PET"
    pattern = re.compile(rf"\b((?:{families})_[A-Z0-9_]*[A-Z0-9])\b(?!_)")
    for path in files:
        names = set(pattern.findall(path.read_text()))
        assert not names - known - flags, path


def test_environment_files_are_valid_for_shell_and_nccl_conf(files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".env":
            for line in path.read_text().splitlines():
                # No quotes, no export, no space that a shell would split or NCCL would keep.
                assert re.fullmatch(r"(#.*)?|[A-Z][A-Z0-9_]*=[A-Za-z0-9=._,:%/-]+", line), line


def test_debugging_variables_stay_out_of_production(files: list[Path]) -> None:
    table = "nccl_params_detail.tsv"
    kind = dict(zip(column(table), column(table, 3), strict=True))
    for path in files:
        if path.name == "nccl.env":
            for name in re.findall(r"^([A-Z0-9_]+)=", path.read_text(), re.MULTILINE):
                assert kind.get(name, "torch") != "debugging", f"{path}: {name}"
                assert not name.startswith("TORCH_"), f"{path}: {name}"
    production = {path.read_text() for path in files if path.name == "nccl.env"}
    assert all("NCCL_DEBUG=WARN" in text for text in production)


# Those that name no plug-in: one machine, and images that hold the vendor's own settings.
WITHOUT_NET = {"nvlink", "azure", "oci", "tcpx"}


def test_missing_fast_network_stops_a_job() -> None:
    """NCCL would fall back to TCP, and crawl, without a word."""
    for path in (variants.TEMPLATE / "parts" / "network").glob("*.env"):
        found = re.search("^NCCL_NET=", path.read_text(), re.MULTILINE)
        assert bool(found) != (path.stem in WITHOUT_NET), path


TEXTS = [
    name
    for name in sorted(variants.read_by_launch_files())
    if questions.load().questions[name].type == "str"
    and not questions.load().questions[name].choices
]
HOSTILE = ["$(touch x)", "`touch x`", "a;touch x", "a b", "a'b", 'a"b', "a\nb", "a|b", "-a", "a\\b"]
# Several modules are several words; constraints stand in comments, which no shell reads.
FINE = {("a b", "modules"), ("a|b", "constraint")}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", HOSTILE)
def test_answers_that_a_shell_would_interpret_are_refused(name: str, value: str) -> None:
    given: Answers = {"clusters": variants.ALL, "nodes": 2, "network": "infiniband"}
    given[name] = value
    state = next(s for s in questions.load().evaluate(given) if s.question.name == name)
    assert state.active
    assert bool(state.problem) == ((value, name) not in FINE)


@pytest.mark.parametrize("cluster", variants.ALL)
def test_every_launch_file_is_used(cluster: str, project: Callable[..., Path]) -> None:
    folder = project(clusters=[cluster], container="docker" if cluster == "kubernetes" else "none")
    paths = [path for path in (folder / "launch").rglob("*") if path.is_file()]
    for path in paths:
        others = [folder / "README.md", *(other for other in paths if other != path)]
        assert any(path.name in other.read_text() for other in others), path


@pytest.mark.parametrize(
    ("vendor", "apptainer", "docker", "pod"),
    [
        ("nvidia", "--nv", "--gpus all", "nvidia.com/gpu"),
        ("amd", "--rocm", "--device /dev/kfd --device /dev/dri", "amd.com/gpu"),
    ],
)
def test_gpus_reach_containers(
    vendor: str, apptainer: str, docker: str, pod: str, project: Callable[..., Path]
) -> None:
    """By the options of their maker, of which the other one's show no GPU at all."""
    gpus = {"nodes": 2, "gpus_per_node": 2, "gpu_vendor": vendor, "network": "infiniband"}
    hosts = ["local", "ssh", "slurm", "pbs", "lsf"]
    folder = project(clusters=hosts, container="apptainer", **gpus) / "launch"
    for name in ("ssh.sh", "slurm.sbatch", "slurm_direct.sbatch", "pbs.sh", "lsf.sh"):
        assert f"apptainer exec {apptainer} " in (folder / name).read_text(), name
    folder = project(clusters=["local", "ssh", "kubernetes"], container="docker", **gpus) / "launch"
    for name in ("ssh_host.sh", "local.sh"):
        assert f"docker run --rm --init {docker} " in (folder / name).read_text(), name
    for name in ("trainjob.yaml", "pytorchjob.yaml", "jobset.yaml"):
        assert f'{pod}: "2"' in (folder / "kubernetes" / name).read_text(), name
    assert ("rocm" in (folder / "Dockerfile").read_text()) == (vendor == "amd")
    script = "PATH= && . launch/env.sh && network_env && "
    script += "echo ${MIOPEN_USER_DB_PATH:+kept}${PYTORCH_MIOPEN_SUGGEST_NHWC:-}"
    said = subprocess.run(
        ["/bin/bash", "-c", script], cwd=folder.parent, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == ("kept1" if vendor == "amd" else "")


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("", 'image="$PWD"/my-project.sqsh'),
        ("images/a.sqsh", 'image="$PWD"/images/a.sqsh'),
        ("~/a.sqsh", "image=~/a.sqsh"),
        ("./a.sqsh", "image=./a.sqsh"),
        ("nvcr.io#nvidia/pytorch:25.01-py3", "image=nvcr.io#nvidia/pytorch:25.01-py3"),
    ],
)
def test_pyxis_takes_files_for_files(image: str, line: str, project: Callable[..., Path]) -> None:
    """A name without a slash or a dot before it would be looked for in a registry."""
    given = {"container_image": image} if image else {}
    folder = project(clusters=["slurm"], container="pyxis", **given) / "launch"
    for name in ("slurm.sbatch", "slurm_direct.sbatch"):
        assert f"\n{line}\n" in (folder / name).read_text()


@pytest.mark.parametrize(("container", "asks"), [("pyxis", True), ("apptainer", False)])
def test_image_asks_enroot_for_gpus(
    container: str, asks: bool, project: Callable[..., Path]
) -> None:
    """Without these variables of the image enroot's hook shows no GPU."""
    folder = project(clusters=["slurm"], container=container, gpus_per_node=2)
    found = "\nENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n"
    assert (found in (folder / "launch" / "Dockerfile").read_text()) == asks


@pytest.mark.parametrize(
    ("given", "words"),
    [({"network": "efa"}, "network"), ({"clusters": ["ssh", "skypilot"]}, "skypilot")],
)
def test_amd_gpus_are_refused_where_files_are_for_others(given: Answers, words: str) -> None:
    given = {"clusters": ["slurm"], "nodes": 2, "gpu_vendor": "amd", **given}
    states = {s.question.name: s for s in questions.load().evaluate(given)}
    assert words in states["gpu_vendor"].problem


def test_longest_shell_file_is_short(scripts: list[Path]) -> None:
    """The one of projects for one machine holds what others have in files of their own."""
    lengths = {path: len(path.read_text().splitlines()) for path in scripts}
    assert max(length for path, length in lengths.items() if path.name != "local.sh") < 130
    assert max(lengths.values()) < 230


def test_sourcing_the_environment_interprets_nothing(
    project: Callable[..., Path], environment: dict[str, str], tmp_path: Path
) -> None:
    folder = project(clusters=["slurm"], nodes=2, network="ethernet", interface="eth0")
    with (folder / "launch" / "nccl.env").open("a") as file:
        file.write(f"FI_PROVIDER=a b $(touch {tmp_path}/made) 'c'\r\n")  # as by Windows
    script = '. launch/env.sh; network_env; echo "$NCCL_SOCKET_IFNAME|$NCCL_DEBUG|$FI_PROVIDER"'
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env={**environment, "NCCL_DEBUG": "INFO"},
        capture_output=True,
        text=True,
        check=True,
    )
    # The exact interface; what the environment held; and the line as it stands.
    assert done.stdout == f"=eth0|INFO|a b $(touch {tmp_path}/made) 'c'\n"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"gpus_per_node": 4}, "a process for each visible GPU of this machine"),
        ({"gpus_per_node": 0, "processes_per_node": 3}, "3 processes on this machine"),
        ({"gpus_per_node": 0}, "1 process on this machine"),
    ],
)
def test_readme_says_what_local_starts(
    answers: dict[str, int], words: str, project: Callable[..., Path]
) -> None:
    folder = project(clusters=["local"], **answers)
    assert f"| `launch/local.sh` | {words}, with torchrun" in (folder / "README.md").read_text()
    script = (folder / "launch" / "local.sh").read_text()
    assert ("nvidia-smi" in script) == (answers["gpus_per_node"] > 0)


@pytest.mark.parametrize("network", ["infiniband", "roce"])
def test_named_cards_alone_carry_the_data(network: str, project: Callable[..., Path]) -> None:
    """By their exact names; nothing is said of cards where no answer names any."""
    projects = [
        project(clusters=["slurm"], nodes=2, network=network, rdma_cards=cards)
        for cards in ("mlx5_0,mlx5_10:1", "")
    ]
    named, unnamed = ((folder / "launch" / "nccl.env").read_text() for folder in projects)
    assert "NCCL_IB_HCA==mlx5_0,mlx5_10:1\n" in named
    assert "NCCL_IB_HCA" not in unnamed


def test_manifests_are_yaml_with_the_worst_names(files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".yaml":
            for document in yaml.safe_load_all(path.read_text()):
                name = document.get("metadata", document)["name"]  # SkyPilot has it at the top
                assert re.fullmatch("[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", name)
