"""Creating a project: all of it or nothing, whatever happens in between."""

import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ddpgen.asking import answers, questions
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.rendering import compiled, render
from generator.program import COMMAND, ddpgen, everything

QUESTIONNAIRE = questions.load()


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "new", *arguments, "--defaults"],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.0005)


def rendering(place: Path, files: int) -> bool:
    return any(place.glob(".p.ddpgen-*")) and rendered_files(place) >= files


def rendered_files(place: Path) -> int:
    return sum(1 for _ in place.glob(".p.ddpgen-*/project/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("files", [0, 1, 4])
def test_signal_while_rendering_leaves_nothing(
    tmp_path: Path, number: signal.Signals, files: int
) -> None:
    # Rendering takes a tenth of a second: on a busy machine most signals come too late.
    for attempt in range(100):
        place = tmp_path / str(attempt)
        place.mkdir()
        process = start("deep/p", cwd=place)
        inside = place / "deep"
        wait_for(partial(rendering, inside, files), process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=600)
        if process.returncode == 0:
            assert any(name.endswith(".copier-answers.yml") for name in everything(place))
            continue
        assert everything(place) == []
        assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
        assert "Traceback" not in errors
        return
    pytest.fail("no signal arrived while files were being rendered")


def test_sigkill_leaves_at_most_one_clearly_named_folder(tmp_path: Path) -> None:
    process = start("p", cwd=tmp_path)
    wait_for(lambda: rendered_files(tmp_path) > 0, process)
    process.kill()
    process.communicate(timeout=600)
    left = list(tmp_path.iterdir())
    assert len(left) == 1
    assert left[0].name.startswith(".p.ddpgen-")
    assert ddpgen("new", "p", "--defaults", cwd=tmp_path).returncode == 0


def test_parallel_runs_to_one_place_give_one_project(tmp_path: Path) -> None:
    processes = [start("p", cwd=tmp_path) for _ in range(3)]
    results = [process.communicate(timeout=600) for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes == [0, 2, 2], results
    assert sum("is not empty" in errors for _, errors in results) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_file_size_limit_is_a_failure_that_leaves_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [*COMMAND, "new", "a/b/p", "--defaults"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)),
        timeout=600,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert "File too large" in run.stderr
    assert "the same answers again: ddpgen new a/b/p --defaults" in run.stderr
    assert "Traceback" not in run.stderr
    assert everything(tmp_path) == []


def test_unwritable_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    # Root ignores permissions as long as it has the capability to.
    drop = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    try:
        for flags in ([], ["--dry-run"]):
            run = ddpgen("new", "a/p", "--defaults", *flags, cwd=tmp_path, before=drop)
            assert run.returncode == 2, run
            assert f"{tmp_path} is not writable" in run.stderr
            assert "Traceback" not in run.stderr
    finally:
        tmp_path.chmod(0o755)
    assert everything(tmp_path) == []


def test_read_only_file_system(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o ro tmpfs . && cd "$PWD" && exec "$@"'
    run = ddpgen(
        "new", "p", "--defaults", cwd=tmp_path, before=("unshare", "-rm", "sh", "-c", script, "sh")
    )
    if "unshare" in run.stderr or "mount:" in run.stderr:
        pytest.skip(f"this machine allows no private mounts: {run.stderr.strip()}")
    assert run.returncode == 2, run
    assert "is not writable" in run.stderr


def test_existing_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "link").symlink_to("p")
    assert ddpgen("new", "link", "--defaults", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "p/.copier-answers.yml").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "p"]


def test_current_folder_stays_the_one_the_shell_is_in(tmp_path: Path) -> None:
    place = tmp_path / "vision"
    place.mkdir()
    before = place.stat().st_ino
    run = ddpgen("new", ".", "--defaults", cwd=place)
    assert run.returncode == 0, run.stderr
    assert place.stat().st_ino == before
    assert "project_name: vision" in (place / ".copier-answers.yml").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["vision"]


@pytest.mark.parametrize("where", ["clone", "."])
def test_clone_of_an_empty_repository_is_filled(tmp_path: Path, where: str) -> None:
    for command in (["init", "-q", "--bare", "host"], ["clone", "-q", "host", "clone"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    run = ddpgen("new", where, "--defaults", cwd=tmp_path / "clone" if where == "." else tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "clone/.copier-answers.yml").is_file()
    assert (tmp_path / "clone/.git/config").read_text().count("host") == 1
    again = ddpgen("new", "clone", "--defaults", cwd=tmp_path)
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)


def test_missing_parents_are_made(tmp_path: Path) -> None:
    path = render.create({}, tmp_path / "a/b/p")
    assert path == tmp_path / "a/b/p"
    assert sorted(everything(tmp_path)[:3]) == ["a", "a/b", "a/b/p"]


def test_permissions_follow_the_umask_and_scripts_stay_executable(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = render.create({}, tmp_path / "p")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    source = template_source.template_root() / "project"
    for name in render.files_of(path):
        template = source / name
        if template.is_file():
            assert os.access(path / name, os.X_OK) == os.access(template, os.X_OK)


def test_create_works_outside_the_main_thread(tmp_path: Path) -> None:
    thread = threading.Thread(target=render.create, args=({}, tmp_path / "p"))
    thread.start()
    thread.join(60)
    assert (tmp_path / "p/.copier-answers.yml").is_file()


def test_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    complete = answers.resolve(QUESTIONNAIRE, {"model": "resnet", "clusters": ["slurm"]})
    first = render.create(complete, tmp_path / "a")
    second = render.create(complete, tmp_path / "elsewhere/b")
    assert everything(first) == everything(second)
    for name in render.files_of(first):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_compiling_once_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("mlp", "gpt", "mlp")
    for number, model in enumerate(models):
        render.render({"model": model}, tmp_path / f"once{number}")
    monkeypatch.setattr(compiled, "once", contextlib.nullcontext)
    for number, model in enumerate(models):
        once, each = tmp_path / f"once{number}", tmp_path / f"each{number}"
        render.render({"model": model}, each)
        assert everything(once) == everything(each)
        for name in render.files_of(each):
            assert (once / name).read_bytes() == (each / name).read_bytes()


def test_works_without_git(tmp_path: Path) -> None:
    run = ddpgen("new", "p", "--defaults", cwd=tmp_path, path="/nonexistent")
    assert run.returncode == 0, run.stderr


def test_no_folder_is_left_in_the_project(tmp_path: Path) -> None:
    for clusters in ("local", "slurm", "kubernetes"):
        complete = answers.resolve(QUESTIONNAIRE, {"clusters": [clusters]})
        path = render.create(complete, tmp_path / clusters)
        assert not [p for p in path.rglob("*") if p.is_dir() and not any(p.iterdir())]


def test_broken_template_leaves_nothing(tmp_path: Path) -> None:
    """A defect of ours is no user's mistake: it shows its traceback, and still cleans up."""
    package = tmp_path / "checkout"
    shutil.copytree(template_source.PACKAGE, package / "ddpgen")
    (package / "template/project").mkdir(parents=True)
    shutil.copy(template_source.template_root() / "copier.yml", package / "template")
    (package / "template/project/bad.jinja").write_text("{{ no_such_name }}")
    place = tmp_path / "place"
    place.mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "ddpgen", "new", "a/p", "--defaults"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 1
    assert "'no_such_name' is undefined" in run.stderr
    assert everything(place) == []


def test_python_interface_refuses_like_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(DdpgenError) as caught:
        render.create({}, tmp_path)
    assert caught.value.exit_code == 2
    assert caught.value.option == str(tmp_path)
    assert caught.value.remedy
