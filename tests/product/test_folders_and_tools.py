"""The tools of a project read a folder of shares as they read the file that was made of it."""

import os
import subprocess
from pathlib import Path

import pytest

from product import forkserver, template
from product.test_programs import settings

ANSWERS = {
    "amp": "off",
    "checkpoint": True,
    "tracker": "none",
    "sharding": "fsdp",
    "saves": "shards",
    "tools": ["predict", "checkpoints"],
}
SAMPLE = ["tools.sample", "--prompt", "the ", "--tokens", "20", "--seed", "1"]
PREDICT = ["tools.predict", "--output", "found.csv"]
EXPORT = ["tools.checkpoints", "export", "--output", "found"]


class Project:
    """One with a run of two ranks, `shares`, and a copy with one file, `file`."""

    def __init__(self, folder: Path, python: Path, model: str, shared: Path) -> None:
        self.folder, self.python = folder, python
        answers = {"model": model, **ANSWERS}
        template.write(answers, folder)
        overrides = [*settings(answers, shared), "run.name=shares", "train.max_steps=4"]
        run = forkserver.train(folder, 2, [*overrides, "log.curve=false"])
        assert run.codes == [0, 0], run.output
        self.use(0, "tools.whole", "runs/shares", "runs/file")
        for name in ("config.toml", "shape.json"):
            if (path := folder / "runs" / "shares" / name).exists():
                (folder / "runs" / "file" / name).write_bytes(path.read_bytes())

    def use(self, code: int, *arguments: str) -> str:
        """Run a tool as a user does; returns what it said."""
        done = subprocess.run(
            [self.python, "-m", *arguments],
            cwd=self.folder,
            env={**os.environ, **forkserver.ONE_THREAD},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def found(self, name: str) -> bytes | dict[str, bytes]:
        """What a tool wrote; an export's mark names the run."""
        path = self.folder / name
        if not path.is_dir():
            return path.read_bytes()
        files = (file for file in path.rglob("*") if file.is_file() and file.name != "EXPORT")
        return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("model", ["mlp", "gpt", "vision"])
def test_tools_read_folders(model: str, tmp_path: Path, shared: Path, forked: Path) -> None:
    """Predictions, texts and exported weights are the same; a damaged share is passed over."""
    project = Project(tmp_path, forked / "python", model, shared)
    checkpoints = tmp_path / "runs" / "shares" / "checkpoints"
    assert all(path.is_dir() for path in checkpoints.glob("*.pt"))
    tools = [EXPORT, SAMPLE if model == "gpt" else PREDICT]
    for tool in tools:
        answers = []
        for run in ("shares", "file"):
            said = project.use(0, *tool, "--newest", f"runs/{run}")
            written = "" if tool is SAMPLE else project.found(tool[-1])
            answers.append(said if tool is SAMPLE else written)
        assert answers[0] == answers[1], tool
    assert "step_00000004.pt  " in project.use(0, "tools.checkpoints", "verify", "runs/shares")
    share = checkpoints / "step_00000004.pt" / "__1_0.distcp"
    share.write_bytes(share.read_bytes()[:-1] + b"x")
    said = project.use(1, "tools.checkpoints", "verify", "runs/shares")
    assert "step_00000004.pt  the content of __1_0.distcp is not what was written" in said
    said = project.use(0, *tools[-1], "--newest", "runs/shares")
    assert "passed over" in said
