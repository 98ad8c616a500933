"""What rank 0 says, writes and draws. Other ranks call the same functions and stay silent."""

import json
import math
import resource
import sys
import time
from pathlib import Path

import torch

import config
import data
import distributed
import loading
import state

HISTORY = "metrics.jsonl"


def run_folder(cfg: config.Run, ranks: distributed.Ranks) -> Path:
    """The run's folder, chosen and created by rank 0 alone.

    Raises ConfigError on every rank where it cannot be created.
    """
    return Path(distributed.on_main(ranks, lambda: str(_create_folder(cfg))))


def _create_folder(cfg: config.Run) -> Path:
    root = Path(cfg.folder)
    if cfg.name:
        (root / cfg.name).mkdir(parents=True, exist_ok=True)  # a run that is there is continued
        return root / cfg.name
    root.mkdir(parents=True, exist_ok=True)
    taken = {entry.name for entry in root.iterdir()}
    folder = next(root / f"{n:03d}" for n in range(1, 10**6) if f"{n:03d}" not in taken)
    folder.mkdir()
    return folder


class Reporter:
    """Lines for people, metrics.jsonl for programs, and a picture at the end."""

    def __init__(
        self, cfg: config.Config, ranks: distributed.Ranks, folder: Path, total_steps: int
    ) -> None:
        self.ranks = ranks
        self.folder = folder
        self.total_steps = total_steps
        self.last = time.perf_counter()
        self.metrics: dict[str, float] = {}  # of the last evaluation
        if ranks.is_main:
            (folder / "config.toml").write_text(config.dump(cfg), encoding="utf-8")

    def start(self, now: state.TrainState, batches: loading.Plan, peak_lr: float) -> None:
        """Say what is about to happen, and drop the history that will be written again."""
        if self.ranks.is_main:
            _cut_history(self.folder / HISTORY, now.step)
        parameters = sum(p.numel() for p in now.model.parameters())
        world = f"{self.ranks.world_size} x {self.ranks.device.type}"
        self.say(f"run {self.folder}: {parameters:,} parameters on {world}")
        self.say(
            f"global batch {batches.global_batch} = {self.ranks.world_size} ranks x "
            f"{batches.micro_batch} samples; "
            f"peak learning rate {peak_lr:.3g}; {self.total_steps} steps"
        )
        self.last = time.perf_counter()

    def train(self, now: state.TrainState) -> None:
        """Report the steps since the last call. Only here does the host wait for the device."""
        loss = distributed.sum_over_ranks(now.loss.clone())
        memory = distributed.max_over_ranks(_peak_memory(self.ranks.device))
        row = {
            "train_loss": float(f"{loss.item() / max(1, now.valid):.7g}"),
            "lr": float(now.optimizer.param_groups[0]["lr"]),
            "grad_norm": now.norm.item(),
            "skipped": now.step - int(now.done.item()),
        }
        elapsed = time.perf_counter() - self.last
        speed = now.valid / elapsed
        self.last += elapsed
        now.loss.zero_()
        now.valid = 0
        self._write(now.step, row | {f"{data.UNIT}_per_second": speed, "memory_gib": memory})
        self.progress(
            now.step,
            f"loss {row['train_loss']:.4f}  lr {row['lr']:.2e}  norm {row['grad_norm']:.2f}  "
            f"{speed:,.0f} {data.UNIT}/s ({speed / self.ranks.world_size:,.0f} per rank)  "
            f"{memory:.2f} GiB" + (f"  skipped {row['skipped']}" if row["skipped"] else ""),
        )

    def validation(self, step: int, metrics: dict[str, float]) -> None:
        """Report an evaluation, which takes no part in the measured speed of training."""
        self.metrics = metrics
        self._write(step, {f"val_{name}": value for name, value in metrics.items()})
        self.say(f"step {step}  " + "  ".join(f"val {k} {v:.4f}" for k, v in metrics.items()))
        self.last = time.perf_counter()

    def finish(self, now: state.TrainState) -> None:
        """Sum the run up and draw its curves."""
        if not self.ranks.is_main:
            return
        self.say(f"lowest validation loss {now.best:.4f}, after step {now.best_step}")
        self.say(f"metrics and curves in {self.folder}")
        draw(self.folder)

    def say(self, text: str) -> None:
        """One line, from rank 0."""
        if self.ranks.is_main:
            clear = "\r\x1b[K" if sys.stdout.isatty() else ""
            print(clear + text, flush=True)

    def progress(self, step: int, text: str) -> None:
        """A bar that stays in place on a terminal, a line in a log file."""
        if not sys.stdout.isatty():
            self.say(f"step {step}/{self.total_steps}  {text}")
        elif self.ranks.is_main:
            done = math.floor(20 * step / self.total_steps)
            bar = "#" * done + "." * (20 - done)
            print(f"\r\x1b[K[{bar}] {step}/{self.total_steps}  {text}", end="", flush=True)

    def _write(self, step: int, row: dict[str, float]) -> None:
        if not self.ranks.is_main:
            return
        with (self.folder / HISTORY).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | row) + "\n")


def draw(folder: Path) -> None:
    """Draw the losses of a run as curve.png, where matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no curve.png: matplotlib is not installed")
        return
    rows = [json.loads(line) for line in (folder / HISTORY).read_text().splitlines()]
    axes = (figure := Figure(figsize=(7, 4), layout="constrained")).add_subplot()
    for name, style in (("train_loss", "-"), ("val_loss", "o-")):
        points = [(row["step"], row[name]) for row in rows if name in row]
        axes.plot(*zip(*points, strict=True), style, label=name.replace("_", " "), markersize=3)
    axes.set(xlabel="optimizer step", ylabel="loss per target", title=str(folder))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(folder / "curve.png", dpi=120)


def _peak_memory(device: torch.device) -> float:
    """GiB: the GPU's peak allocation, or the process's peak resident set on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _cut_history(path: Path, step: int) -> None:
    """Keep the rows up to a step: those after it come again, and half a line may end the file."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            break
        if row["step"] <= step:
            kept.append(line + "\n")
    partial = path.with_suffix(".partial")
    partial.write_text("".join(kept), encoding="utf-8")
    partial.replace(path)
