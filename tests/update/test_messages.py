"""What can be wrong with a project, a clone or a machine: one clear message for each."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from generator.program import everything

from ddpgen.errors import DdpgenError
from ddpgen.updating import changing, update
from ddpgen.updating.merge import Merge
from update.lab import ADDED, CHANGED_IN_NEW, DELETED, NEW, OLD, RENAMED_FROM, RENAMED_TO, Lab

ANSWERS = ".copier-answers.yml"


@pytest.fixture
def project(lab: Lab, tmp_path: Path) -> Path:
    project = lab.project(tmp_path / "p", OLD, {"clusters": ["local", "slurm"], "tracker": "wandb"})
    lab.commit(project)
    return project


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def snapshot(project: Path) -> dict[str, bytes]:
    files = [project / name for name in everything(project) if not name.startswith(".git/")]
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def no_repository(lab: Lab, project: Path) -> None:
    del lab
    shutil.rmtree(project / ".git")


def no_commit(lab: Lab, project: Path) -> None:
    shutil.rmtree(project / ".git")
    lab.git("init", "--quiet", cwd=project)


def changed(lab: Lab, project: Path) -> None:
    del lab
    (project / "train.py").write_text("mine\n")


def untracked(lab: Lab, project: Path) -> None:
    del lab
    (project / "notes.txt").write_text("mine\n")


def untracked_and_hidden(lab: Lab, project: Path) -> None:
    lab.git("config", "status.showUntrackedFiles", "no", cwd=project)
    untracked(lab, project)


def changed_unseen(mark: str) -> Callable[[Lab, Path], None]:
    def spoil(lab: Lab, project: Path) -> None:
        changed(lab, project)
        lab.git("update-index", mark, "train.py", cwd=project)

    return spoil


def sparse(lab: Lab, project: Path) -> None:
    lab.git("sparse-checkout", "set", "--cone", "engine", cwd=project)


def in_a_merge(lab: Lab, project: Path) -> None:
    """As after a merge whose conflicts are solved, but which is not committed."""
    lab.git("checkout", "--quiet", "-b", "other", cwd=project)
    (project / "notes.txt").write_text("mine\n")
    lab.commit(project)
    lab.git("checkout", "--quiet", "-", cwd=project)
    lab.git("merge", "--quiet", "--no-ff", "--no-commit", "other", cwd=project)


def committed(*edit: str) -> Callable[[Lab, Path], None]:
    def spoil(lab: Lab, project: Path) -> None:
        rewrite(project / ANSWERS, *edit)
        lab.commit(project)

    return spoil


def no_answers(lab: Lab, project: Path) -> None:
    (project / ANSWERS).unlink()
    lab.commit(project)


def line_ends(lab: Lab, project: Path) -> None:
    path = project / "train.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    lab.commit(project)


def ignored_project(lab: Lab, project: Path) -> None:
    shutil.rmtree(project / ".git")
    (project.parent / ".gitignore").write_text("/p/\n")
    lab.commit(project.parent)


SPOILT = {
    "no repository": (no_repository, "is not in a git repository"),
    "no commit": (no_commit, "is not committed to git"),
    "ignored by an outer repository": (ignored_project, "is not committed to git"),
    "changed file": (changed, "changes that are not committed"),
    "untracked file": (untracked, "changes that are not committed"),
    "untracked file that git does not show": (untracked_and_hidden, "that are not committed"),
    "in the middle of a merge": (in_a_merge, "is in the middle of a merge"),
    "skip-worktree": (changed_unseen("--skip-worktree"), "git does not look for changes"),
    "assume-unchanged": (changed_unseen("--assume-unchanged"), "git does not look for changes"),
    "sparse checkout": (sparse, "git sparse-checkout disable"),
    "no answers": (no_answers, "is not in a project of ddpgen"),
    "answer changed by hand": (committed("amp: bf16", "amp: fp16"), "was edited by hand"),
    "answer of no choice": (committed("amp: bf16", "amp: fp8"), "amp=fp8: is not a choice"),
    "unknown answer": (committed("amp:", "amq: 1\namp:"), "amq: there is no such option"),
    "answer removed": (committed("tracker: wandb\n", ""), "was edited by hand"),
    "no YAML": (committed("amp: bf16", "amp: ["), "is not valid YAML"),
    "another template": (committed("git+ddpgen://", "gh:"), "was not made by ddpgen"),
    "newer than this ddpgen": (committed(OLD, "v92.1.0"), "install ddpgen 92.1.0 or later"),
    "not a release": (committed(OLD, "v90.0.0+dev"), f"_commit: {OLD}"),
    "no version": (committed(OLD, "main"), "_commit=main: is no version"),
    "Windows line ends": (line_ends, "train.py: lines end as on Windows"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_project(lab: Lab, project: Path, case: str) -> None:
    spoil, message = SPOILT[case]
    spoil(lab, project)
    before = snapshot(project)
    with pytest.raises(DdpgenError) as caught:
        update.update(project, None, [], dry_run=False)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2
    assert caught.value.exit_code == 2
    assert snapshot(project) == before


MISTAKES = {
    "unknown option": (["set", "ampp=fp16"], "did you mean amp?"),
    "no equals sign": (["set", "amp"], "amp: write it as key=value"),
    "not a choice": (["set", "amp=fp8"], "is not a choice"),
    "does not fit": (["set", "nodes=2", "clusters=local"], "local starts one node only"),
    "does not apply": (["set", "batch_norm=sync"], "but model is mlp"),
    "older": (["update", "--to", "0.1.0"], "the project is already newer"),
    "unknown version": (["update", "--to", "3.1"], "there is no such version (allowed: 0.1.0"),
    "not here": (["update", "nowhere"], "nowhere: there is no such folder"),
    "project as an option": (
        ["update", "--project", "."],
        "a project needs no option: ddpgen update PATH",
    ),
    "project among answers": (["set", "tests", "amp=fp16"], "--project tests"),
    "empty path": (["diff", ""], "is not a path"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_on_the_command_line(lab: Lab, project: Path, case: str) -> None:
    arguments, message = MISTAKES[case]
    done = lab.ddpgen(*arguments, cwd=project if case != "not here" else project.parent)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert lab.git("status", "--porcelain", cwd=project) == ""


def test_without_git(lab: Lab, project: Path) -> None:
    done = lab.run(sys.executable, "-m", "ddpgen", "update", cwd=project, PATH="/none")
    assert done.returncode == 2
    assert "git: is needed for this" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_an_old_git(lab: Lab, project: Path, tmp_path: Path) -> None:
    """git before 2.38 knows no `merge-tree --write-tree`: it shows how it is used, and ends."""
    old = tmp_path / "old/git"
    old.parent.mkdir()
    old.write_text(
        f'#!/bin/sh\ncase " $* " in *" --write-tree "*) exit 129;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    old.chmod(0o755)
    path = f"{old.parent}{os.pathsep}{lab.environment['PATH']}"
    done = lab.run(sys.executable, "-m", "ddpgen", "update", cwd=project, PATH=path)
    assert done.returncode == 2
    assert "git: 2.38 or later is needed" in done.stderr
    assert "Traceback" not in done.stderr


def test_detached_head_and_shallow_clone(lab: Lab, project: Path, tmp_path: Path) -> None:
    (project / "mine.txt").write_text("mine\n")
    lab.commit(project)
    lab.git("clone", "--quiet", "--depth=1", f"file://{project}", "clone", cwd=tmp_path)
    clone = tmp_path / "clone"
    lab.git("checkout", "--quiet", "--detach", cwd=clone)
    done = lab.ddpgen("update", cwd=clone)
    assert done.returncode == 0, done.stderr
    assert "HEAD is detached" in done.stdout
    assert (clone / ADDED).is_file()
    assert (clone / "mine.txt").read_text() == "mine\n"


def test_conflict_is_marked_listed_and_can_be_undone(lab: Lab, project: Path) -> None:
    path = project / CHANGED_IN_NEW[0]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(f"mine {number}\n" for number in range(len(lines))))
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 1
    assert f"CONFLICT {path.name}" in done.stdout
    text = path.read_text()
    assert "<<<<<<< yours" in text
    assert f">>>>>>> ddpgen-{NEW[1:]}" in text
    assert "mine 7\n" in text
    assert f"UU {path.name}" in lab.git("status", "--porcelain", cwd=project)
    assert lab.run("git", "commit", "-m", "no", cwd=project).returncode == 128
    (project / "notes.txt").write_text("mine\n")
    assert lab.ddpgen("update", cwd=project).stderr.count("in the middle of a merge") == 1
    undo = done.stderr.partition("To undo: ")[2].strip()
    subprocess.run(undo, shell=True, check=True, capture_output=True)
    assert lab.git("status", "--porcelain", cwd=project) == "?? notes.txt"


def test_index_that_another_git_keeps_locked_changes_nothing(lab: Lab, project: Path) -> None:
    """The files were changed, with marks of conflicts of which git did not know."""
    path = project / CHANGED_IN_NEW[0]
    path.write_text("mine\n" * 200)
    lab.commit(project)
    before = snapshot(project)
    (project / ".git/index.lock").touch()
    with pytest.raises(DdpgenError, match=r"index\.lock"):
        update.update(project, None, [], dry_run=False)
    assert snapshot(project) == before


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (changed, "changes that are not committed"),
        (lambda _, project: set_amp(project), "changes that are not committed"),
        (lambda lab, project: (changed(lab, project), lab.commit(project)), "try again"),
    ],
    ids=["editor", "another set", "commit"],
)
def test_what_others_do_meanwhile_is_not_overwritten(
    lab: Lab,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Lab, Path], object],
    words: str,
) -> None:
    """An edit was lost; of two changes at once each made half of the files."""
    merge = changing.merge
    after: list[dict[str, bytes]] = []

    def merge_slowly(*arguments: Any) -> Merge:
        outcome = merge(*arguments)
        monkeypatch.setattr(changing, "merge", merge)
        act(lab, project)
        after.append(snapshot(project))
        return outcome

    monkeypatch.setattr(changing, "merge", merge_slowly)
    with pytest.raises(DdpgenError, match=words):
        update.change(project, ["tracker=mlflow"], dry_run=False)
    assert [snapshot(project)] == after


def set_amp(project: Path) -> None:
    assert update.change(project, ["amp=fp16"], dry_run=False) == 0


def test_edits_of_a_renamed_file_follow_it(lab: Lab, project: Path) -> None:
    with (project / RENAMED_FROM).open("a") as file:
        file.write("MINE=1\n")
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 0, done.stderr
    assert f"renamed  {RENAMED_FROM} -> {RENAMED_TO}" in done.stdout
    assert (project / RENAMED_TO).read_text().endswith("MINE=1\n")
    assert not (project / RENAMED_FROM).exists()


def test_edited_file_that_the_template_deleted_is_kept_and_reported(
    lab: Lab, project: Path
) -> None:
    with (project / DELETED).open("a") as file:
        file.write("# mine\n")
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 1
    words = "(the template has no such file for your answers: keep your file, or `git rm"
    assert f"CONFLICT {DELETED} {words} {DELETED}`)" in done.stdout
    assert (project / DELETED).read_text().endswith("# mine\n")


def test_file_that_is_a_link_keeps_what_the_template_changed_beside(
    lab: Lab, project: Path
) -> None:
    """The template's new lines were lost, as of a file that the user has deleted."""
    (project / "optim.py").rename(project / "mine.py")
    (project / "optim.py").symlink_to("mine.py")
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    beside = f"optim.py~ddpgen-{NEW[1:]}"
    assert done.returncode == 1
    assert "CONFLICT optim.py (yours is a link or a submodule, and the template's" in done.stdout
    assert f"new file lies in {beside}: take its changes over" in done.stdout
    assert f"CONFLICT {beside}\n" in done.stdout
    assert "deleted" not in done.stdout
    assert "# changed in 91" in (project / beside).read_text()
    assert (project / "optim.py").is_symlink()
    lab.git("rm", "--quiet", beside, cwd=project)
    lab.git("add", "optim.py", cwd=project)
    lab.commit(project)
    assert not (project / beside).exists()


def test_file_where_the_template_has_a_folder_is_named(lab: Lab, project: Path) -> None:
    (project / "tools").write_text("mine\n")
    lab.commit(project)
    done = lab.ddpgen("set", "tools=predict", cwd=project)
    assert done.returncode == 1
    words = "(your tools: the template has a folder of that name; rename yours)"
    assert f"CONFLICT tools~yours {words}" in done.stdout
    assert (project / "tools~yours").read_text() == "mine\n"


def test_unedited_file_that_the_template_deleted_is_reported(lab: Lab, project: Path) -> None:
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 0, done.stderr
    assert f"removed  {DELETED}" in done.stdout
    assert not (project / DELETED).exists()


def test_deleted_file_stays_deleted(lab: Lab, project: Path) -> None:
    (project / "optim.py").unlink()
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "deleted  optim.py (by you" in done.stdout
    assert not (project / "optim.py").exists()


@pytest.mark.parametrize("name", [ADDED, "optim.py"])
def test_file_that_git_does_not_know_is_not_overwritten(lab: Lab, project: Path, name: str) -> None:
    (project / ".git/info/exclude").write_text(f"{name}\n")
    (project / name).write_text("mine\n")
    lab.git("rm", "--quiet", "--cached", "--ignore-unmatch", name, cwd=project)
    lab.commit(project)
    done = lab.ddpgen("update", cwd=project)
    assert done.returncode == 1
    assert f"skipped  {name}" in done.stdout
    assert (project / name).read_text() == "mine\n"


def test_dry_run_shows_and_changes_nothing(lab: Lab, project: Path) -> None:
    before = snapshot(project)
    done = lab.ddpgen("update", "--dry-run", cwd=project)
    assert done.returncode == 0, done.stderr
    for text in (f"- Entry of {NEW}.", "+# changed in 91", f"added    {ADDED}", "dry run"):
        assert text in done.stdout
    assert f"Entry of {OLD}" not in done.stdout
    assert snapshot(project) == before


def test_answers_that_follow_are_shown(lab: Lab, project: Path) -> None:
    done = lab.ddpgen("set", "nodes=2", "clusters=slurm", cwd=project)
    assert done.returncode == 0, done.stderr
    for line in ("nodes: 1 -> 2", "network: nvlink -> ethernet", "clusters: local,slurm -> slurm"):
        assert line in done.stdout.splitlines()
    again = lab.ddpgen("set", "nodes=2", cwd=project)
    assert "not committed" in again.stderr
    lab.commit(project)
    again = lab.ddpgen("set", "nodes=2", cwd=project)
    assert again.stdout.strip() == "Nothing to change."


def test_answers_of_two_branches_are_merged_by_the_commands_that_are_named(
    lab: Lab, project: Path
) -> None:
    """Each branch wrote a checksum of its own, and none is that of the merged answers."""
    for branch, answer in (("theirs", "accumulation=true"), ("main", "micro_batch_size=16")):
        lab.git("switch", "--quiet", *(["-c"] if branch == "theirs" else []), branch, cwd=project)
        assert lab.ddpgen("set", answer, cwd=project).returncode == 0
        lab.commit(project)
    lab.git("merge", "--quiet", "--strategy-option=ours", "theirs", cwd=project)
    refused = lab.ddpgen("set", "amp=fp16", cwd=project)
    assert refused.returncode == 2
    assert "was edited by hand or merged" in refused.stderr
    done = lab.run("bash", "-ec", refused.stderr.partition("first: ")[2], cwd=project.parent)
    assert done.returncode == 0, done.stderr
    lab.commit(project)
    merged = snapshot(project)
    lab.git("switch", "--quiet", "--detach", "main~2^1", cwd=project)
    assert lab.ddpgen("set", "accumulation=true", cwd=project).returncode == 0
    assert snapshot(project) == merged


def test_answer_changed_by_hand_is_followed_by_the_command_that_is_named(
    lab: Lab, project: Path
) -> None:
    SPOILT["answer changed by hand"][0](lab, project)
    refused = lab.ddpgen("update", cwd=project)
    done = lab.run("bash", "-ec", refused.stderr.partition("first: ")[2], cwd=project.parent)
    assert done.returncode == 0, done.stderr
    assert "amp: bf16 -> fp16" in done.stdout


def test_chosen_answer_that_no_longer_fits_is_named(lab: Lab, tmp_path: Path) -> None:
    answers = {"clusters": ["slurm"], "container": "pyxis"}
    project = lab.project(tmp_path / "q", OLD, answers)
    lab.commit(project)
    done = lab.ddpgen("set", "clusters=pbs", cwd=project)
    assert done.returncode == 2
    assert "container=pyxis: is a SLURM plug-in" in done.stderr
    assert "give another answer in the same command: container=..." in done.stderr


def test_diff_shows_what_the_user_did(lab: Lab, project: Path) -> None:
    assert "No file of the template" in lab.ddpgen("diff", cwd=project).stdout
    rewrite(project / "train.py", "import", "# mine\nimport")
    (project / "own.py").write_text("own = 1\n")
    shutil.rmtree(project / ".git")
    done = lab.ddpgen("diff", str(project / "launch"), cwd=project)
    assert done.returncode == 0, done.stderr
    assert "+# mine" in done.stdout
    assert done.stdout.endswith("Your own files:\n  own.py\n")
    assert "own = 1" not in done.stdout


def test_new_questions_without_an_answer_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """`memory: - -> ` says nothing to anybody."""
    before, after = {"amp": "bf16", "tools": ["memory"]}, {"amp": "fp16", "tools": [], "memory": ""}
    changing._print_answers(before, after, "launch")
    assert capsys.readouterr().out == "amp: bf16 -> fp16\ntools: memory -> \n"
