"""A small generated project, runs of it that are disturbed, and what an undisturbed one gives."""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from product import forkserver, template
from product.combinations import combinations
from product.training import SPEED, same

RANKS = 3  # with two, the order of a sum cannot be seen in its last bit
STEPS = 8
ANSWERS = {
    "model": "mlp",
    "amp": "off",
    "checkpoint": True,
    "accumulation": True,
    "tracker": "none",
}
SETTINGS = [
    "model.width=64",
    "train.global_batch_size=96",
    "train.micro_batch_size=8",
    f"train.max_steps={STEPS}",
    "optim.warmup_steps=2",
    "checkpoint.every_steps=1",
    "log.every_steps=3",
    "ddp.timeout_seconds=60",
    "run.name=run",
]
# Rank 0 is killed at its n-th operation on a checkpoint's files: every state of a save comes up.
HOOK = """
import os, signal, sys

sys.modules["matplotlib.figure"] = None  # no curve: it takes longer than so short a training

left = int(os.environ["KILL_AT"]) if os.environ["RANK"] == "0" and "KILL_AT" in os.environ else -1

def watch(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove") and "checkpoints" in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

if left > 0:
    sys.addaudithook(watch)
"""


def write_project(folder: Path) -> None:
    """The project that is disturbed: nothing but what ANSWERS say."""
    options = [*ANSWERS, "sharding", "dynamic_graph", "activation_checkpointing"]
    answers = next(a for a in combinations(options) if ANSWERS.items() <= a.items())
    template.write(answers, folder)


class Lab:
    """One project; every try has a folder of its own for its run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        write_project(self.project)
        program = self.project / "train.py"
        (self.project / "hook.py").write_text(HOOK)
        before, first, after = program.read_text().partition("import os\n")
        assert first, "nothing would be killed inside a save"
        program.write_text(f"{before}import hook\n{first}{after}")
        sys.path.insert(0, str(self.project))
        self.files: Any = importlib.import_module("engine.checkpoint")
        sys.path.remove(str(self.project))
        self.tries = 0
        self.finish(self.new())  # prepares the data
        whole = self.new()
        self.seconds = self.finish(whole).seconds
        self.expected = self.outcome(whole)

    def new(self) -> Path:
        """A folder for a try."""
        self.tries += 1
        return self.folder / f"try{self.tries}"

    def start(self, folder: Path, *overrides: str, **variables: str) -> forkserver.World:
        """Ranks that train, or go on with what is in the folder."""
        argv = [*SETTINGS, f"run.folder={folder}", *overrides]
        return forkserver.start(self.project, RANKS, argv, variables)

    def finish(self, folder: Path) -> forkserver.Run:
        """Train to the end, undisturbed."""
        return forkserver.train(self.project, RANKS, [*SETTINGS, f"run.folder={folder}"])

    def checkpoints(self, folder: Path) -> list[Path]:
        """All that were finished, good or not, the oldest first."""
        paths: list[Path] = self.files.found(folder / "run" / self.files.FOLDER)
        return [path for path in paths if path.with_suffix(".json").exists()]

    def corrupt(self, folder: Path) -> list[str]:
        """What is wrong with finished checkpoints."""
        problems = ((path, self.files.problem(path)) for path in self.checkpoints(folder))
        return [f"{path}: {problem}" for path, problem in problems if problem]

    def outcome(self, folder: Path) -> Any:
        """The final state and the history of a run."""
        run = folder / "run"
        content = torch.load(self.files.path_of(run, STEPS), weights_only=True)
        del content["config"]
        rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return content, [{k: v for k, v in row.items() if not SPEED.fullmatch(k)} for row in rows]

    def identical(self, folder: Path) -> bool:
        """Whether a run ended bit for bit as the undisturbed one."""
        return same(self.outcome(folder), self.expected)


def is_root() -> bool:
    """Whether file systems can be mounted here."""
    return os.geteuid() == 0
