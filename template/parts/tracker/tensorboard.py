"""Metrics for TensorBoard: `tensorboard --logdir runs` shows all runs side by side."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

import config
from engine import settings


class Tracker:
    """Rank 0's record of a run{{ '; it goes on where a restarted run continues' if checkpoint else '' }}."""

    # {% if checkpoint %}
    def __init__(self, cfg: config.Config, folder: Path, step: int) -> None:
        # Points of an earlier start from after its checkpoint are hidden: they come again.
        self.writer = SummaryWriter(folder / "tensorboard", purge_step=step + 1)
        self.writer.add_text("config", f"    {settings.dump(cfg)}".replace("\n", "\n    "), step)
    # {% else %}
    def __init__(self, cfg: config.Config, folder: Path) -> None:
        self.writer = SummaryWriter(folder / "tensorboard")
        self.writer.add_text("config", f"    {settings.dump(cfg)}".replace("\n", "\n    "))
    # {% endif %}

    def log(self, step: int, row: dict[str, float]) -> None:
        """Record the values of a step."""
        for name, value in row.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()  # by itself only every two minutes: a run that fails would lose these

    def close(self) -> None:
        """Write what is still in memory."""
        self.writer.close()
