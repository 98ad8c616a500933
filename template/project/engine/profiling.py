"""Records the steps that `profile.steps` names: a trace per rank and a summary, or for Nsight."""

from pathlib import Path

import torch
from torch.cuda import nvtx
from torch.profiler import profile

import config
from engine import distributed, timeline

SUMMARY = "profile.txt"
HEAVIEST = 10


class Marks:
    """NVTX ranges for Nsight Systems: each step, and in it each operation of torch.

    `nsys profile --capture-range=cudaProfilerApi` records from `start` to `stop`.
    """

    def __init__(self) -> None:
        self.operations = torch.autograd.profiler.emit_nvtx()

    def start(self) -> None:
        """Let nsys begin, before the first chosen step."""
        torch.cuda.profiler.start()
        self.operations.__enter__()

    def stop(self) -> None:
        """Let nsys end, after the last one."""
        self.operations.__exit__(None, None, None)
        torch.cuda.profiler.stop()


class Recorder:
    """Records a run from the first chosen step to the last.

    Every rank leaves a trace in the run's folder, for Perfetto or chrome://tracing; rank 0 leaves a
    summary too. With `profile.nsight` the steps are marked instead, and nsys writes them. Where no
    steps are chosen, nothing is recorded.
    """

    def __init__(
        self, cfg: config.Profile, folder: Path, process: distributed.Process, done: int
    ) -> None:
        """`done` steps are done already: the recording begins behind them.

        Raises ConfigError where steps are to be marked for Nsight and there is no GPU.
        """
        if cfg.steps and cfg.nsight and process.device.type != "cuda":
            raise config.ConfigError("profile.nsight = true needs a GPU: the ranges are CUDA's")
        first, self.last = cfg.steps or (0, 0)  # steps count from 1
        self.first = max(first, done + 1)
        self.folder = folder
        self.process = process
        self.recorded = 0
        self.profile: profile | Marks | None = None
        if cfg.steps and self.first <= self.last:
            self.profile = Marks() if cfg.nsight else timeline.recording(process.device)
        elif cfg.steps and process.is_main:
            print(f"profile.steps = {cfg.steps}: step {done} is done already, nothing is recorded")

    def before(self, step: int) -> None:
        """Called before each step."""
        if self.profile and step == self.first:
            self.profile.start()
        if isinstance(self.profile, Marks) and step >= self.first:
            nvtx.range_push(f"step {step}")

    def after(self, step: int) -> None:
        """Called after each step, with the number of the step."""
        if self.profile and step >= self.first:
            self.recorded += 1
            if isinstance(self.profile, Marks):
                nvtx.range_pop()
            if step == self.last:
                self.finish()

    def finish(self) -> None:
        """Write the steps that were recorded; the run may end before the last chosen step."""
        if not self.profile:
            return
        if not self.recorded:
            if self.process.is_main:
                print(f"the run ended before step {self.first}: nothing is recorded")
            return
        if self.process.device.type == "cuda":
            torch.cuda.synchronize(self.process.device)  # wait for the last step's kernels
        self.profile.stop()
        if isinstance(self.profile, profile):
            self.leave(self.profile)
        self.profile = None

    def leave(self, recorded: profile) -> None:
        """The trace of this rank, and on rank 0 the summary."""
        recorded.export_chrome_trace(str(self.folder / f"trace_rank{self.process.rank}.json.gz"))
        if self.process.is_main:
            text = summary(recorded, self.process.device, self.recorded)
            (self.folder / SUMMARY).write_text(text, encoding="utf-8")
            print(text, flush=True)


def summary(recorded: profile, device: torch.device, steps: int) -> str:
    """The shares of computing, communicating and idle time, and the heaviest operations."""
    times: dict[str, list[float]] = {}
    for event in timeline.operations(recorded, device):
        inside = sum(child.time_range.elapsed_us() for child in event.cpu_children)
        times.setdefault(event.name, []).append(event.time_range.elapsed_us() - inside)
    computing, communicating = timeline.spans(recorded, device)
    busy = timeline.covered(computing + communicating)
    total = timeline.extent(computing + communicating)
    lines = [
        f"{steps} step{'s' * (steps > 1)} of {total / steps / 1e3:.2f} ms on rank 0, "
        "slower than without recording:",
        f"{timeline.covered(communicating) / total:7.1%} communication, "
        f"{(busy - timeline.covered(computing)) / total:.1%} without computing beside it",
        f"{1 - busy / total:7.1%} idle",
    ]
    for name in sorted(times, key=lambda name: -sum(times[name]))[:HEAVIEST]:
        spent, calls = sum(times[name]) / steps, len(times[name]) / steps
        share = spent * steps / total
        lines.append(f"{share:7.1%} {spent / 1e3:9.3f} ms {calls:7.1f} x {name}")
    return "\n".join(lines) + "\n"
