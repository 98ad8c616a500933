"""One module per theme; importing them fills the table."""

from ddpgen.check.registry import RULES
from ddpgen.check.rules import (
    buffers,
    checkpoint,
    data,
    device,
    gradients,
    group,
    launch,
    output,
    ranks,
    resume,
    slurm,
    step,
)

THEMES = (
    device,
    group,
    data,
    gradients,
    step,
    buffers,
    checkpoint,
    resume,
    ranks,
    output,
    launch,
    slurm,
)

__all__ = ["RULES", "THEMES"]
