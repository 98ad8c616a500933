"""How runs end that were started in other ways than by a launch file: exit codes and words."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from product import forkserver, template
from product.programs import completed

FOREVER = ["train.epochs=100000", "run.name=run"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    template.write(completed({"model": "mlp", "checkpoint": True}), tmp_path)
    return tmp_path


def delay(project: Path, late: str) -> None:
    """Have a rank come later than the other to the end that a mistake is."""
    program = project / "train.py"
    text = program.read_text()
    begin = text.index("if __name__")
    slow = f"""
import os
import time

import config

as_written = main


def main(argv=None):
    try:
        as_written(argv)
    except config.ConfigError:
        time.sleep(2 * (f"rank {{os.environ.get('RANK')}}" == {late!r}))
        raise


"""
    program.write_text(text[:begin] + slow + text[begin:])


def start(
    project: Path, *overrides: str, python: str | Path = sys.executable, **variables: str
) -> subprocess.Popen[str]:
    """Two ranks in a process group of their own, which hears of Ctrl-C as from a terminal."""
    # A shell has told the tests to ignore Ctrl-C where they run in the background.
    command = ["env", "--default-signal=INT", str(python)]
    return subprocess.Popen(
        [*command, "train.py", "--processes", "2", *overrides],
        cwd=project,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere"
)
def test_folder_without_permission_is_one_line(project: Path) -> None:
    """A project that somebody else has installed: data and runs have to go elsewhere."""
    kept = "-dac_override,-dac_read_search"  # what lets root write everywhere
    as_user = ["setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}"] * (os.geteuid() == 0)
    project.chmod(0o555)
    (elsewhere := project.with_name("elsewhere")).mkdir(exist_ok=True)
    for options, words in (
        ([], "data.folder: cannot make data"),
        ([f"data.folder={elsewhere}"], "run.folder: cannot make runs"),
    ):
        command = [*as_user, sys.executable, "-B", "train.py", "train.max_steps=1", *options]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert done.stderr.splitlines() == [f"error: {words}: Permission denied"]
        assert done.returncode == 2
    project.chmod(0o755)


FOLDERS = {
    "data.folder={file}": "data.folder: cannot make {file}: File exists",
    "data.folder={file}/data": "data.folder: cannot make {file}/data: Not a directory",
    "run.folder={file}": "run.folder: cannot make {file}: File exists",
    "run.folder=/proc/sys": "run.folder: /proc/sys may not be written",  # not by root either
    "data.folder=$UNSET/data": "data.folder = $UNSET/data names a variable that is not set",
    "run.folder=$UNSET": "run.folder = $UNSET names a variable that is not set",
}


@pytest.mark.parametrize("override", FOLDERS)
def test_folder_that_cannot_be_is_one_line(
    override: str, project: Path, tmp_path: Path, forked: Path
) -> None:
    """A file, a file system that takes no files, a variable that is not set: the key is named."""
    (file := tmp_path / "file").touch()
    said = start(project, override.format(file=file), python=forked / "python").communicate()[1]
    assert said.splitlines() == ["error: " + FOLDERS[override].format(file=file)]


def test_paths_may_begin_with_variables(project: Path, tmp_path: Path, forked: Path) -> None:
    """As on clusters, whose places for large files differ: they are read on the machine itself."""
    overrides = ["run.folder=${SCRATCH}/runs", "data.folder=~/data", "run.name=run"]
    places = {"SCRATCH": str(tmp_path), "HOME": str(tmp_path)}
    process = start(project, "train.max_steps=1", *overrides, python=forked / "python", **places)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    assert (tmp_path / "runs" / "run" / "config.toml").exists()
    assert any((tmp_path / "data").iterdir())


def test_run_without_checkpoints_overwrites_none(tmp_path: Path, forked: Path) -> None:
    """A second run of the same name is refused, and the first stays as the first was."""
    template.write(completed({"model": "mlp", "checkpoint": False}), tmp_path)
    given = ("train.max_steps=1", "run.name=run")
    assert start(tmp_path, *given, python=forked / "python").wait(300) == 0
    before = (tmp_path / "runs" / "run" / "metrics.jsonl").read_text()
    second = start(tmp_path, *given, python=forked / "python")
    assert second.communicate(timeout=300)[1].splitlines() == [
        "error: runs/run exists, and no run overwrites another: choose another run.name"
    ]
    assert second.returncode == 2
    assert (tmp_path / "runs" / "run" / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize("late", ["no rank", "rank 0", "rank 1"])
def test_mistake_is_one_line(late: str, project: Path, forked: Path) -> None:
    """The ranks tell what is wrong; the launcher's own report does not follow."""
    delay(project, late)
    mistake = "train.global_batch_size=33"
    process = start(project, mistake, "run.name=run", python=forked / "python")
    said = process.communicate(timeout=300)[1]
    lines = [line for line in said.splitlines() if line]
    assert process.returncode == 2, said
    assert [line.partition(" =")[0] for line in lines] == ["error: train.global_batch_size"]


def test_launcher_that_ends_all_ranks_lets_rank_0_tell_the_mistake(
    project: Path, forked: Path
) -> None:
    delay(project, "rank 0")
    torchrun = [forked / "torchrun", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "train.py", "train.global_batch_size=33", "run.name=run"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("error: train.global_batch_size = 33") == 1, done.stderr


def test_mistake_that_only_the_second_node_meets_is_told(project: Path, forked: Path) -> None:
    """A file that a node lacks; rank 0 knows nothing of that."""
    place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    done = subprocess.run(
        [forked / "python", "train.py", "data.source=nowhere.csv", "run.name=run"],
        cwd=project,
        env={**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("rank 1: error: data.source"), done.stderr


ANOTHER_DISK = """
import os
from pathlib import Path

exists, glob = Path.exists, Path.glob
if os.environ["RANK"] == "{rank}":
    Path.exists = lambda path: path.suffix != ".pt" and exists(path)
    Path.glob = lambda path, name: [] if path.name == "checkpoints" else glob(path, name)
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_run_that_nodes_do_not_share_is_refused(rank: int, project: Path) -> None:
    """A node lacks the checkpoint. If that is rank 0's node, rank 0 would begin anew."""
    short = ["run.name=run", "train.epochs=1"]
    assert forkserver.train(project, 2, [*short, "train.max_steps=2"]).codes == [0, 0]
    program, disk = project / "train.py", ANOTHER_DISK.format(rank=rank)
    shared = program.read_text()
    program.write_text(shared.replace("\nif __name__", f"{disk}\nif __name__"))
    run = forkserver.train(project, 2, [*short, "train.max_steps=3"])
    assert run.codes[1] == 2, run.output
    assert "all nodes must share run.folder" in run.output
    assert "Traceback" not in run.output
    program.write_text(shared)
    assert forkserver.train(project, 2, [*short, "train.max_steps=3"]).codes == [0, 0]


def test_time_that_is_over_asks_for_another_start(project: Path, forked: Path) -> None:
    soon = "checkpoint.max_minutes=0.001"
    process = start(project, *FOREVER, soon, python=forked / "python")
    said = process.communicate(timeout=300)
    assert process.returncode == 75, said
    assert "asked to stop: saved step" in said[0]


@pytest.mark.parametrize("heard", ["by all", "by the parent alone"])
def test_ctrl_c_saves_and_leaves_no_traceback(heard: str, project: Path) -> None:
    process = start(project, *FOREVER)
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step "):
        assert line, process.communicate()
    tell = os.killpg if heard == "by all" else os.kill
    tell(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "asked to stop: saved step" in said[0]
    assert "Traceback" not in said[1]
