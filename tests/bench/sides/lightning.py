"""(d) PyTorch Lightning, with all that is optional and costs time switched off."""

import logging
import os
import warnings
from pathlib import Path
from typing import Any

import model
import pytorch_lightning as lightning
import torch
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.strategies import ModelParallelStrategy
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import DataLoader

from bench.cases import LOG_EVERY, received
from bench.clock import Clock
from bench.sides import shared_out
from bench.sides.project import RANKS, Parts, as_is, mean_loss

task = received()
clock = Clock(task)
path = Path(task.folder) / "checkpoint.ckpt"


class Module(lightning.LightningModule):
    """The project's model."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts, self.network = parts, parts.model

    def configure_model(self) -> None:
        """With its strategy for FSDP2, Lightning asks the module to share itself out, twice."""
        if task.sharded and not isinstance(self.network, FSDPModule):
            shared_out.share_out(self.network, self.device_mesh["data_parallel"])

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = mean_loss(self.network, batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        inputs, targets = batch
        sums = model.metric_sums(self.network(inputs), targets)
        count = targets.numel()
        self.log_dict(
            {f"val_{name}": value / count for name, value in sums.items()},
            sync_dist=True,
            batch_size=count,
        )

    def configure_gradient_clipping(self, *_: Any, **__: Any) -> None:
        """By hand: with mixed precision Lightning's own clipping refuses every fused optimizer."""
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.parts.cfg.train.clip_norm)

    def configure_optimizers(self) -> Any:
        optimizer = self.parts.optimizer()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.parts.schedule(task.steps))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class Watch(lightning.Callback):
    """The clock."""

    def on_train_start(self, *_: Any) -> None:
        clock.ready()

    def on_train_batch_end(self, *_: Any) -> None:
        clock.step()

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        clock.repeat("save", lambda: trainer.save_checkpoint(path))
        clock.repeat("load", lambda: load(trainer))

    def on_validation_start(self, *_: Any) -> None:
        clock.begin()

    def on_validation_end(self, *_: Any) -> None:
        clock.end("evaluation")


def load(trainer: Any) -> None:
    """What `fit(ckpt_path=...)` does with the states."""
    content = trainer.strategy.load_checkpoint(path, weights_only=True)
    trainer.strategy.load_model_state_dict(content)
    trainer.strategy.load_optimizer_state_dict(content)


def main() -> None:
    """Train."""
    cuda = torch.cuda.is_available()
    parts = Parts(task)
    trainer = lightning.Trainer(
        accelerator="gpu" if cuda else "cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy=ModelParallelStrategy(RANKS, 1) if task.sharded else "ddp",
        precision="bf16-mixed" if task.amp else "32-true",
        max_epochs=1,
        logger=CSVLogger(task.folder),
        log_every_n_steps=LOG_EVERY,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Watch()],
    )
    module = Module(parts)
    train = DataLoader(parts.train, task.micro_batch, shuffle=True, collate_fn=as_is)
    val = DataLoader(parts.val, task.micro_batch, collate_fn=as_is)
    trainer.fit(module, train)
    for _ in range(task.repeats):
        trainer.validate(module, val, verbose=False)
    clock.close()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    main()
