"""Metrics for Weights & Biases; WANDB_MODE=offline keeps them on this machine."""

import dataclasses
# {% if checkpoint %}
import uuid
# {% endif %}
from pathlib import Path
from typing import Any, Literal

import wandb
from wandb.errors import AuthenticationError, CommError, Error, UsageError

import config

PROJECT = {{ project_name | tojson }}


class Tracker:
    """Rank 0's record of a run{{ '; it goes on where a restarted run continues' if checkpoint else '' }}."""

    # {% if checkpoint %}
    def __init__(self, cfg: config.Config, folder: Path, step: int) -> None:
        values, run_id = dataclasses.asdict(cfg), _run_id(folder, step)
        try:
            self.run = _begin(folder, run_id, values)
    # {% else %}
    def __init__(self, cfg: config.Config, folder: Path) -> None:
        values = dataclasses.asdict(cfg)
        try:
            self.run = _begin(folder, values)
    # {% endif %}
        except (AuthenticationError, UsageError) as error:
            raise config.ConfigError(
                "`wandb login` or WANDB_API_KEY gives a key; WANDB_MODE=offline and "
                f"log.track=false need none. Weights & Biases says: {error}"
            ) from error
        except CommError as error:  # the training does not need the server
            print(f"warning: Weights & Biases does not answer: {error}", flush=True)
            self.run = _begin(folder, {{ 'run_id, ' if checkpoint else '' }}values, "offline")
            print(f"to send this {{ "start" if checkpoint else "run" }}'s record later: wandb sync {self.run.dir}/..", flush=True)

    def log(self, step: int, row: dict[str, float]) -> None:
        """Record the values of a step.{{ ' Steps that the run has already are passed over by W&B.' if checkpoint else '' }}"""
        try:
            self.run.log(row, step=step)
        except (Error, OSError) as error:  # metrics.jsonl has all, and the training goes on
            print(f"warning: W&B has not recorded step {step}: {error}", flush=True)

    def close(self) -> None:
        """Send what is still in memory, within the time that `_begin` has set."""
        try:
            self.run.finish()
        except (Error, OSError) as error:
            print(f"warning: W&B has not recorded all: {error}", flush=True)


def _begin(
    folder: Path,
    # {% if checkpoint %}
    run_id: str,
    # {% endif %}
    values: dict[str, Any],
    mode: Literal["offline"] | None = None,  # None: as WANDB_MODE says
) -> wandb.Run:
    return wandb.init(
        project=PROJECT,
        name=folder.name,
        # {% if checkpoint %}
        id=run_id,
        resume="allow",
        # {% endif %}
        dir=folder,
        config=values,
        mode=mode,
        settings=wandb.Settings(init_timeout=60, finish_timeout=60),
    )
# {% if checkpoint %}


def _run_id(folder: Path, step: int) -> str:
    """The id that the run keeps over restarts, in a file beside its metrics."""
    path = folder / "wandb_id"
    if step == 0 or not path.exists():
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text()
# {% endif %}
