"""The interface of the parts of the watch."""

from engine.state import TrainState


class Part:
    """One thing that is watched. All ranks call the same functions, after the same steps.

    A part decides alike on all ranks: what one rank alone knows it reduces first.
    """

    def step(self, state: TrainState) -> None:
        """After each optimizer step."""

    def save(self, state: TrainState) -> None:
        """Before a checkpoint is written."""
