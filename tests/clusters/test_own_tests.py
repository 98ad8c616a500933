"""Projects with launch files: clean and typed, and their tests of these files are green.

Other tests of projects are in tests/product, where all projects run on one machine.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from product.preloaded import run_tests

from ddpgen.asking.question import Answers
from tests.clusters.variants import OPTIONAL, VALUES

FILES = ["tests/engine/test_launch.py", "tests/support/launching.py"]
# With values that hardly anybody gives, shared out over the projects.
PROJECTS: dict[str, Answers] = {
    "slurm": {
        **OPTIONAL,
        "clusters": ["slurm", "local"],
        "gpus_per_node": 7,
        "sharding": "off",
        "time_limit": "9999:59:59",
    },
    "others": {
        "clusters": ["ssh", "pbs", "lsf", "kubernetes", "skypilot"],
        "container": "docker",
        "gpus_per_node": 0,
        "processes_per_node": 3,
    },
    "containers": {
        "clusters": ["slurm", "ssh", "pbs", "lsf"],
        "container": "apptainer",
        "network": "gib",
        "gpu_request": "gres",
        "modules": "a/1",
        "checkpoint": False,
    },
    "amd": {
        "clusters": ["local", "pbs", "lsf"],
        "gpus_per_node": 64,
        "gpu_vendor": "amd",
        "time_limit": "00:07:30",
    },
    "pyxis": {
        "clusters": ["slurm"],
        "container": "pyxis",
        "container_image": VALUES["container_image"][0],
        "network": "fastrak",
        "time_limit": "00:05:00",
    },
}


@pytest.mark.parametrize("name", PROJECTS)
def test_project_tests_its_launch_files(name: str, project: Callable[..., Path]) -> None:
    folder = project(nodes=2, **PROJECTS[name])
    for command in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        done = subprocess.run(
            [sys.executable, "-m", *command, "."],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
    outcome = run_tests(folder, ["-q", "-p", "no:cacheprovider", FILES[0]])
    assert outcome.code == 0, outcome.output[-4000:]


def test_project_on_one_machine_has_none(project: Callable[..., Path]) -> None:
    folder = project(clusters=["local"])
    assert not [file for file in FILES if (folder / file).exists()]
