"""How long the tests of generated projects take, as users run them after an edit."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.tree import Times

NAME, DEFAULT = "own tests", "default"
# Beside the model: whatever brings tests or makes them longer.
MOST: dict[str, Any] = {
    "batch_norm": "sync",
    "accumulation": True,
    "amp": "fp16",
    "activation_checkpointing": True,
    "sharding": "zero1",
    "saves": "background",
    "watch": ["spikes", "ranks", "speed", "files", "starts"],  # with ZeRO-1 there are no replicas
    "compression": True,
    "tracker": "wandb",
    "tools": ["preflight", "memory", "scaling", "profile", "predict", "checkpoints"],
    "clusters": ["local", "slurm"],
    "nodes": 2,
}
# As each README says: the largest projects share their tests out over two cores.
SHARED_OUT = ["-p", "xdist", "-n", "2"]


def projects(most: Mapping[str, Any] = MOST) -> dict[str, dict[str, Any]]:
    """The default project, and the largest of each model, with whatever of `most` it is asked."""
    from ddpgen.asking import answers, questions
    from ddpgen.errors import DdpgenError

    asked = questions.load()
    found: dict[str, dict[str, Any]] = {DEFAULT: {}}
    for model in asked.questions["model"].values:
        chosen: dict[str, Any] = {"model": model}
        for name, value in most.items():
            with contextlib.suppress(DdpgenError):  # not asked of this model
                answers.resolve(asked, chosen | {name: value})
                chosen[name] = value
        found[f"{model}, with all that may be chosen"] = chosen
    return found


def measure(build: Path) -> Times:
    """Seconds of the tests of each project, one project after the other.

    Raises:
        SystemExit: a test failed.
    """
    from ddpgen.rendering.render import render

    times: Times = {}
    for number, (name, answers) in enumerate(projects().items()):
        project = build / "own-tests" / str(number)
        if not project.exists():
            render(answers, project)
        if not times:
            seconds(project)  # after this run torch is in memory, as it is for who has just edited
        times[name] = [seconds(project, *SHARED_OUT * (name != DEFAULT))]
        print(f"  {name}: {times[name][0]:.0f} s", flush=True)
    return times


def seconds(project: Path, *options: str) -> float:
    """How long one project's tests take, which have to pass."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=project,
        # Users have no plugins of pytest but those that they choose.
        env={**os.environ, "WANDB_MODE": "offline", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{project}: its tests failed\n{done.stdout[-4000:]}")
    return time.perf_counter() - begin
