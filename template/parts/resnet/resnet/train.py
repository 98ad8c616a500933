"""Train the model: `python train.py --help`, or under torchrun, or by a file in launch/."""

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import checkpoint
import config
import data
import distributed
import loading
import model
import optim
import report
import state
import steps


def main(argv: Sequence[str] | None = None) -> None:
    """Read the config, prepare the data, and train as one rank of the world."""
    parser = config.parser("Train the model.")
    parser.add_argument(
        "--processes", type=int, default=1, help="start so many ranks on this machine"
    )
    parser.add_argument(
        "--prepare-only", action="store_true", help="prepare this node's data and exit"
    )
    arguments = parser.parse_args(argv)
    cfg = config.load(arguments.config, arguments.overrides)
    loading.prepare(cfg.data)
    if arguments.prepare_only:
        return
    if arguments.processes > 1:
        rest = ["--config", str(arguments.config), *arguments.overrides]
        distributed.run_locally(arguments.processes, main, rest)
        return
    with distributed.session(cfg.ddp) as ranks:
        train(cfg, ranks)


@dataclass(frozen=True)
class Job:
    """What stays the same throughout a run."""

    cfg: config.Config
    ranks: distributed.Ranks
    folder: Path
    batches: loading.Plan
    loaders: loading.Loaders
    schedule: Callable[[Tensor], Tensor]  # completed steps -> learning rate
    total_steps: int
    reporter: report.Reporter


def train(cfg: config.Config, ranks: distributed.Ranks) -> state.TrainState:
    """One run, from its first step or from where it stopped."""
    set_numerics(cfg.run)
    batches = loading.plan(cfg.train, ranks.world_size)
    splits = data.open_splits(cfg.data)
    loaders = loading.build(splits, cfg, ranks, batches)
    total_steps = cfg.train.epochs * loaders.steps_per_epoch
    if cfg.train.max_steps:
        total_steps = min(total_steps, cfg.train.max_steps)
    now = start_state(cfg, splits.shape, ranks)
    peak = optim.peak_lr(cfg.optim, batches.global_batch)
    schedule = functools.partial(
        optim.learning_rate, cfg=cfg.optim, peak=peak, total_steps=total_steps
    )
    folder = report.run_folder(cfg.run, ranks)
    reporter = report.Reporter(cfg, ranks, folder, total_steps)
    if name := checkpoint.resume(folder, now, ranks):
        reporter.say(f"continuing from {name}")
    reporter.start(now, batches, peak)
    fit(now, Job(cfg, ranks, folder, batches, loaders, schedule, total_steps, reporter))
    reporter.finish(now)
    return now


def set_numerics(cfg: config.Run) -> None:
    """Precision and repeatability of the device's arithmetic."""
    torch.set_float32_matmul_precision(cfg.matmul_precision)
    if cfg.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at its start
        torch.use_deterministic_algorithms(True)


def start_state(
    cfg: config.Config, shape: data.Shape, ranks: distributed.Ranks
) -> state.TrainState:
    """Model, optimizer and counters before the first step."""
    loading.seed_all("weights", cfg.run.seed)
    network = distributed.wrap(model.build(cfg.model, shape), ranks, cfg)
    return state.TrainState(
        model=network,
        optimizer=optim.build(network.module, cfg.optim),
        done=torch.zeros((), device=ranks.device),
        loss=torch.zeros((), dtype=torch.float64, device=ranks.device),
        norm=torch.zeros((), device=ranks.device),
    )


def fit(now: state.TrainState, job: Job) -> None:
    """All steps that are left, or those until a scheduler asks to stop."""
    per_epoch = job.loaders.steps_per_epoch
    stop = checkpoint.StopRequest()
    while now.step < job.total_steps:
        epoch, place = divmod(now.step, per_epoch)
        job.loaders.start(epoch, place * job.batches.global_batch)
        windows = loading.windows(
            job.loaders.train,
            min(per_epoch - place, job.total_steps - now.step),
            stop,
        )
        for window in windows:
            steps.train_step(now, window, job.cfg, job.ranks, job.schedule)
            ends_epoch = now.step % per_epoch == 0 or now.step == job.total_steps
            if ends_epoch or now.step % job.cfg.log.every_steps == 0:
                job.reporter.train(now)
            if ends_epoch:
                validate(now, job)
            if ends_epoch or window.stop or checkpoint.due(now.step, job.cfg.checkpoint):
                checkpoint.save(job.folder, now, job.cfg.checkpoint.keep, job.ranks)
            if window.stop and now.step < job.total_steps:
                checkpoint.leave_for_requeue(job.folder, now.step, job.ranks)


def validate(now: state.TrainState, job: Job) -> None:
    """Evaluate, report and remember the best."""
    metrics = steps.evaluate(now.model, job.loaders.val, job.ranks.device)
    if metrics["loss"] < now.best:
        now.best, now.best_step = metrics["loss"], now.step
    job.reporter.validation(now.step, metrics)


if __name__ == "__main__":
    distributed.run(main)
