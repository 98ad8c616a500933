"""A small generated project, runs of it that are disturbed, and what an undisturbed one gives."""

import functools
import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from product import forkserver, template
from product.combinations import combinations
from product.training import SPEED, same

from ddpgen.asking.question import Answers

RANKS = 3  # with two, the order of a sum cannot be seen in its last bit
STEPS = 8
ANSWERS = {
    "model": "mlp",
    "amp": "off",
    "checkpoint": True,
    "accumulation": True,
    "tracker": "none",
}
# Kinds of saves: what is answered, and on which numbers of ranks a disturbed run goes on.
SAVES: dict[str, tuple[Answers, tuple[int, ...]]] = {
    "files": ({}, (RANKS,)),
    "shards": ({"sharding": "fsdp", "saves": "shards"}, (1, 2, RANKS, 4)),
    "background": ({"saves": "background"}, (RANKS,)),
}
SETTINGS = [
    "model.width=64",
    "train.global_batch_size=96",
    "train.micro_batch_size=8",
    f"train.max_steps={STEPS}",
    "optim.warmup_steps=2",
    "checkpoint.every_steps=1",
    "log.every_steps=3",
    "run.name=run",
]
# A rank is killed at its n-th operation on a checkpoint's files: every state of a save comes up.
# On a slow disk, of which each operation takes a while, other kills are often inside a save, too.
HOOK = """
import os, signal, sys, time

sys.modules["matplotlib.figure"] = None  # no curve: it takes longer than so short a training

left = int(os.environ["KILL_AT"]) if os.environ["RANK"] == os.environ.get("KILL_RANK") else -1
slow = float(os.environ.get("SLOW_DISK", 0))

def watch(event, arguments):
    global left
    if event in ("open", "os.mkdir", "os.rename", "os.remove", "shutil.rmtree"):
        if "checkpoints" in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(slow)

if left > 0 or slow:
    sys.addaudithook(watch)
"""


def write_project(folder: Path, saves: str = "files") -> None:
    """The project that is disturbed: nothing but what ANSWERS say, and this kind of saves."""
    options = [*ANSWERS, "sharding", "saves", "dynamic_graph", "activation_checkpointing"]
    wanted = ANSWERS | SAVES[saves][0]
    answers = next(a for a in combinations(options) if wanted.items() <= a.items())
    template.write(answers, folder)


def load(project: Path, name: str) -> ModuleType:
    """A module of a project, though another project's module of that name was loaded before."""
    sys.path.insert(0, str(project))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(project))
        for loaded, module in list(sys.modules.items()):
            if str(project) in str(getattr(module, "__file__", "")):
                del sys.modules[loaded]


class Lab:
    """One project; every try has a folder of its own for its run."""

    def __init__(self, folder: Path, saves: str = "files") -> None:
        self.folder = folder
        self.wrapper = "fsdp" if saves == "shards" else "ddp"
        self.ranks = SAVES[saves][1]
        self.settings = [*SETTINGS, self.timeout(60)]
        self.writers = RANKS if saves == "shards" else 1
        self.variables = {} if saves == "files" else {"SLOW_DISK": "0.01"}
        self.project = folder / "project"
        write_project(self.project, saves)
        program = self.project / "train.py"
        (self.project / "hook.py").write_text(HOOK)
        before, first, after = program.read_text().partition("import os\n")
        assert first, "nothing would be killed inside a save"
        program.write_text(f"{before}import hook\n{first}{after}")
        self.files: Any = load(self.project, "engine.checkpoint")
        self.tries = 0
        self.finish(self.new())  # prepares the data
        self.whole = self.new()
        self.seconds = self.finish(self.whole, RANKS, "checkpoint.keep=99").seconds
        self.expected = functools.cache(self._expected)

    def new(self) -> Path:
        """A folder for a try."""
        self.tries += 1
        return self.folder / f"try{self.tries}"

    def timeout(self, seconds: int) -> str:
        """The setting, whose section has the name of what wraps the model."""
        return f"{self.wrapper}.timeout_seconds={seconds}"

    def start(self, folder: Path, *overrides: str, **variables: str) -> forkserver.World:
        """Ranks that train, or go on with what is in the folder."""
        argv = [*self.settings, f"run.folder={folder}", *overrides]
        return forkserver.start(self.project, RANKS, argv, self.variables | variables)

    def finish(self, folder: Path, ranks: int = RANKS, *overrides: str) -> forkserver.Run:
        """Train to the end, undisturbed."""
        argv = [*self.settings, f"run.folder={folder}", *overrides]
        return forkserver.train(self.project, ranks, argv, self.variables)

    def checkpoints(self, folder: Path) -> list[Path]:
        """All that were finished, good or not, the oldest first."""
        paths: list[Path] = self.files.found(folder / "run" / self.files.FOLDER)
        return [path for path in paths if path.with_suffix(".json").exists()]

    def corrupt(self, folder: Path) -> list[str]:
        """What is wrong with finished checkpoints."""
        problems = ((path, self.files.problem(path)) for path in self.checkpoints(folder))
        return [f"{path}: {problem}" for path, problem in problems if problem]

    def in_a_save(self, folder: Path) -> bool:
        """Whether a checkpoint is there that was begun, and not finished."""
        saves = folder / "run" / self.files.FOLDER
        finished = {path.with_suffix(".json") for path in self.files.found(saves)}
        return any(saves.glob("*.partial")) or not all(path.exists() for path in finished)

    def step(self, folder: Path) -> int:
        """The step after which a run will go on."""
        found = self.files.newest_good(folder / "run")
        return int(Path(found).stem.removeprefix("step_")) if found else 0

    def outcome(self, folder: Path) -> Any:
        """The final state and the history of a run."""
        run = folder / "run"
        path = self.files.path_of(run, STEPS)
        whole = path.is_dir() and self.files.folders.whole
        content = whole(path) if whole else torch.load(path, weights_only=True)
        del content["config"]
        rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return content, [{k: v for k, v in row.items() if not SPEED.fullmatch(k)} for row in rows]

    def identical(self, folder: Path, step: int, ranks: int) -> bool:
        """Whether a run that went on after a step ended bit for bit as one without a disturbance.

        Sums of so many ranks have their own last bits: so had the other run, after that step.
        """
        expected = self.expected(0 if ranks == RANKS else step, ranks)
        return same(self.outcome(folder), expected)

    def _expected(self, step: int, ranks: int) -> Any:
        if ranks == RANKS:
            return self.outcome(self.whole)
        folder = self.new()
        shutil.copytree(self.whole, folder)
        for path in self.checkpoints(folder):
            if path > self.files.path_of(folder / "run", step):
                path.with_suffix(".json").unlink()
                shutil.rmtree(path)
        run = self.finish(folder, ranks)
        assert run.codes == [0] * ranks, run.output
        return self.outcome(folder)


def is_root() -> bool:
    """Whether file systems can be mounted here."""
    return os.geteuid() == 0
