"""Sites: the built-in ones hold together, and users make, check and use their own."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ddpgen.asking import questions
from ddpgen.errors import DdpgenError
from ddpgen.launching import sites
from ddpgen.rendering import render

QUESTIONNAIRE = questions.load()
BUILT_IN = [path.stem for path in sorted(sites.BUILT_IN.glob("*.toml"))]
SINFO = "echo 'gpu*|gpu:a100:4|64+|1-12:00:00|hbm80g,rome'"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config folder of one's own, and a machine whose programs are in bin/."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path


def install(place: Path, name: str, body: str) -> None:
    program = place / "bin" / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def ddpgen(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddpgen", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def own(place: Path, name: str, text: str) -> None:
    path = place / "ddpgen" / "sites" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_fact_has_its_source(name: str) -> None:
    content = tomllib.loads((sites.BUILT_IN / f"{name}.toml").read_text())
    sources = content.get("sources", {})
    assert content.get("answers", {}).keys() <= sources.keys()
    assert all(source.startswith("https://") for source in sources.values())


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", BUILT_IN)
def test_site_gives_launch_files(name: str, nodes: int, tmp_path: Path) -> None:
    """Valid for bash, and with every fact of the site that applies to so many nodes."""
    site = sites.load(name, QUESTIONNAIRE)
    given: questions.Answers = {"nodes": nodes, **dict.fromkeys(site.needs, "abc123")}
    answers = site.fill(QUESTIONNAIRE, given)
    render.render(answers, tmp_path / "p")
    scripts = [path for path in (tmp_path / "p/launch").iterdir() if path.suffix != ".env"]
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
    main = {"slurm": "slurm.sbatch", "pbs": "pbs.sh"}[site.cluster]
    text = (tmp_path / "p/launch" / main).read_text()
    facts = ["partition", "qos", "constraint", "time_limit", "modules", "memory", *site.needs]
    for fact in facts:
        assert str(answers.get(fact, "")) in text, fact
    amd = "AMD MI" in (sites.BUILT_IN / f"{name}.toml").read_text()
    assert amd == ("RCCL" in (tmp_path / "p/launch/nccl.env").read_text())
    assert f"{'ngpus=' if site.cluster == 'pbs' else '--gpus-per-node='}" in text


def test_own_site_goes_before_a_built_in_one(place: Path) -> None:
    own(place, "lumi", 'title = "Mine"\ncluster = "slurm"\n[answers]\npartition = "mine"\n')
    done = ddpgen("site", "list")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("lumi ")]
    assert line.endswith("Mine")


def test_new_project_for_a_site(place: Path) -> None:
    project = place / "p"
    command = ["new", str(project), "--defaults", "--site", "lumi", "--data", "nodes=4"]
    refused = ddpgen(*command)
    assert refused.returncode == 2
    assert "--data account=..." in refused.stderr
    assert not project.exists()
    done = ddpgen(*command, "--data", "account=project_1", "--data", "partition=small-g")
    assert done.returncode == 0, done.stderr
    text = (project / "launch/slurm.sbatch").read_text()
    assert "#SBATCH --partition=small-g\n#SBATCH --account=project_1\n" in text


def test_machine_is_asked(place: Path) -> None:
    """What `new` finds out, `check` confirms; it is written once."""
    install(place, "sinfo", SINFO)
    done = ddpgen("site", "new", "here")
    assert done.returncode == 0, done.stderr
    site = sites.load("here", QUESTIONNAIRE)
    assert site.answers == {
        "partition": "gpu",
        "gpus_per_node": 4,
        "gpu_type": "a100",
        "cpus_per_gpu": 16,
        "time_limit": "36:00:00",
    }
    assert ddpgen("site", "check", "here").returncode == 0
    again = ddpgen("site", "new", "here")
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ('partition = "other"', "of the partitions with GPUs, SLURM knows gpu"),
        ("gpus_per_node = 8", "partition gpu has 4"),
        ('gpu_type = "h100"', "partition gpu has a100"),
        ("cpus_per_gpu = 17", "partition gpu has 64 CPUs a node"),
        ('time_limit = "48:00:00"', "partition gpu ends jobs after 36:00:00"),
        ('constraint = "hbm40g"', "constraint=hbm40g: partition gpu has"),
        ('interface = "none0"', "interface=none0: not on this host"),
    ],
)
def test_what_does_not_fit_is_said(place: Path, answer: str, complaint: str) -> None:
    install(place, "sinfo", SINFO)
    own(place, "wrong", f'cluster = "slurm"\n[answers]\n{answer}\n')
    done = ddpgen("site", "check", "wrong")
    assert done.returncode == 1
    assert complaint in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('cluster = "slrum"', "slrum"),
        ('cluster = "slurm"\ncolour = "red"', "is not what a site has"),
        ('cluster = "slurm"\n[answers]\nnodse = 3', "did you mean nodes"),
        ('cluster = "slurm"\n[answers]\nnodes = "many"', "is not a whole number"),
        ("cluster", "is not valid TOML"),
    ],
)
def test_mistakes_in_a_site(place: Path, text: str, reason: str) -> None:
    own(place, "wrong", text)
    with pytest.raises(DdpgenError) as caught:
        sites.load("wrong", QUESTIONNAIRE)
    assert reason in str(caught.value)


def test_unknown_site_names_the_nearest(place: Path) -> None:
    assert place.is_dir()
    done = ddpgen("site", "check", "perlmuter")
    assert done.returncode == 2
    assert "did you mean perlmutter?" in done.stderr
