"""Metrics for Weights & Biases; WANDB_MODE=offline keeps them on this machine."""

import dataclasses
import uuid
from pathlib import Path

import wandb
from wandb.errors import AuthenticationError, UsageError

import config

PROJECT = {{ project_name | tojson }}


class Tracker:
    """Rank 0's record of a run; it goes on where a restarted run continues."""

    def __init__(self, cfg: config.Config, folder: Path, step: int) -> None:
        values, run_id = dataclasses.asdict(cfg), _run_id(folder, step)
        try:
            self.run = wandb.init(
                project=PROJECT,
                name=folder.name,
                id=run_id,
                resume="allow",
                dir=folder,
                config=values,
            )
        except (AuthenticationError, UsageError) as error:
            raise config.ConfigError(
                f"Weights & Biases: {error}: `wandb login` or WANDB_API_KEY gives a key; "
                "WANDB_MODE=offline and log.track=false need none"
            ) from error

    def log(self, step: int, row: dict[str, float]) -> None:
        """Record the values of a step. Steps that the run has already are passed over by W&B."""
        self.run.log(row, step=step)

    def finish(self) -> None:
        """Send what is still in memory."""
        self.run.finish()


def _run_id(folder: Path, step: int) -> str:
    """The id that the run keeps over restarts, in a file beside its metrics."""
    path = folder / "wandb_id"
    if step == 0 or not path.exists():
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text()
