"""Releases made for tests: the real ones, the working template as 90.0.0, and a changed 91.0.0."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddpgen.asking.question import Value
from ddpgen.fetching import template_source
from ddpgen.rendering import render
from ddpgen.rendering.versions import Versions

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "v90.0.0", "v91.0.0"
# Two versions of a file, of one length and written in one second, have the same compiled file.
NOTHING_COMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
RENAMED_FROM, RENAMED_TO = "launch/nccl.debug.env", "launch/debug.env"
DELETED, ADDED = "tests/engine/test_devices.py", "tests/test_added.py"
CHANGED_IN_NEW = ("train.py", "steps.py", "config.toml", "README.md", "optim.py", "launch/local.sh")


@dataclass(frozen=True)
class Lab:
    """A ddpgen in a folder of its own, as the newest release.

    Attributes:
        package: the folder for PYTHONPATH.
        work: the folder that tests may fill.
        versions: all versions, oldest first.
    """

    package: Path
    work: Path
    versions: Versions

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a shell that has this ddpgen and somebody's identity."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        roles = {
            f"GIT_{role}_{what}": "someone"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        scripts = Path(sys.executable).parent
        return {
            **inherited,
            **roles,
            "HOME": str(home),
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.package),
            **NOTHING_COMPILED,
        }

    def run(self, *command: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program in that shell, to its end."""
        return subprocess.run(
            command,
            cwd=cwd,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def ddpgen(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run this ddpgen's command line."""
        return self.run(sys.executable, "-m", "ddpgen", *arguments, cwd=cwd)

    def git(self, *arguments: str | Path, cwd: Path) -> str:
        """Run git, which has to succeed."""
        done = self.run("git", *arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def project(self, dest: Path, tag: str, answers: Mapping[str, Value]) -> Path:
        """Generate a project with a version."""
        render.render(answers, dest, self.versions[tag]._root, tag)
        return dest

    def commit(self, project: Path) -> None:
        """Commit everything, in a repository that is made if there is none."""
        if not (project / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main", cwd=project)
        self.git("add", "--all", cwd=project)
        self.git("commit", "--quiet", "--allow-empty", "--message=Work", cwd=project)


def make(folder: Path) -> Lab:
    """Copy this ddpgen and release twice, with the template changed in between."""
    package, work = folder / "package", folder / "work"
    caches = shutil.ignore_patterns("__pycache__", ".*_cache")
    shutil.copytree(template_source.PACKAGE, package / "ddpgen", ignore=caches)
    shutil.copytree(template_source.template_root(), package / "template", ignore=caches)
    shutil.rmtree(package / "ddpgen/_template", ignore_errors=True)
    work.mkdir()
    release(package, OLD)
    change(package / "template")
    release(package, NEW)
    kept = folder / "versions"
    kept.mkdir()
    with installed(package):
        return Lab(package, work, Versions(kept))


@contextmanager
def installed(package: Path) -> Iterator[None]:
    """Let this process use the templates of a lab."""
    ours = {"PACKAGE": package / "ddpgen", "RELEASES": package / "ddpgen/releases", "TAG": NEW}
    before = {name: getattr(template_source, name) for name in ours}
    try:
        for name, value in ours.items():
            setattr(template_source, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(template_source, name, value)


def release(package: Path, tag: str) -> None:
    version = package / "ddpgen/__init__.py"
    version.write_text(re.sub('".*"$', f'"{tag[1:]}"', version.read_text(), flags=re.MULTILINE))
    code = f"""
import shutil, sys
from pathlib import Path
from ddpgen.fetching import template_source as source
source.RELEASES.mkdir(exist_ok=True)
notes = "ddpgen {tag[1:]}\\n\\n- Entry of {tag}."
bundle = source.make_bundle(Path(sys.argv[1]), "{tag}", notes, list(source.released().values()))
shutil.copy(bundle, source.RELEASES)
"""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(package), **NOTHING_COMPILED}
        # Python looks for modules where it starts, too.
        command = [sys.executable, "-c", code, folder]
        subprocess.run(command, cwd=package, env=environment, check=True)


def change(template: Path) -> None:
    """What 91.0.0 does: lines in many files, a file renamed, deleted, added, two questions."""
    project = template / "project"

    def place(name: str) -> Path:
        return project / re.sub("^launch/", "{{launch_folder}}/", name)

    for name in CHANGED_IN_NEW:
        path = next(p for p in (place(name), place(f"{name}.jinja")) if p.is_file())
        lines = path.read_text().splitlines()
        for number in range(len(lines) - 3, 3, -9):
            lines[number:number] = [f"# changed in 91 after {number}"]
        path.write_text("\n".join(lines) + "\n")
    place(RENAMED_FROM).rename(place(RENAMED_TO))
    next(project.glob(f"{DELETED}*")).unlink()
    (project / ADDED).write_text("# added in 91\n")
    path = template / "copier.yml"
    text = path.read_text()
    # The question about the type of the GPUs gets another name, and takes over the old answer.
    before, question, after = re.split(r"(?m)^(gpu_type:(?:\n.+)+)", text)
    question = question.replace("gpu_type", "accelerator")
    question = re.sub("default: .*", """default: "{{ gpu_type | default('') }}\"""", question)
    renamed = f"{before}{question}{after}"
    option = '\nnew_option:\n  type: str\n  help: New\n  default: "{{ model }}"\n'
    path.write_text(renamed.replace("\n# --- How to train", f"{option}\n# --- How to train", 1))
    for path in template.rglob("*"):
        if path.is_file() and path.suffix in {".jinja", ".sh", ""} and path.name != "copier.yml":
            path.write_text(re.sub(r"\bgpu_type\b", "accelerator", path.read_text()))
