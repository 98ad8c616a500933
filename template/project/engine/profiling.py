"""What host and device do in chosen steps: `profile.steps`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

import config
from engine import distributed

SUMMARY = "profile.txt"
HEAVIEST = 10
COMMUNICATION = ("nccl", "gloo:", "c10d::")  # how the backends name their work
# What counts as an operation on a CPU; everything else, such as an optimizer's step, is made of
# these. A GPU has operations only: its kernels.
OPERATIONS = (*COMMUNICATION, "aten::", "## Call CompiledFxGraph")

Span = tuple[float, float]  # microseconds


class Recorder:
    """Records a run from the beginning of its first chosen step to the end of the last.

    Every rank leaves a trace in the run's folder, for Perfetto or chrome://tracing; rank 0 also a
    summary. Without chosen steps nothing is recorded, and a step costs two comparisons.
    """

    def __init__(self, cfg: config.Profile, folder: Path, ranks: distributed.Ranks) -> None:
        self.first, self.last = cfg.steps or (0, 0)  # steps count from 1
        self.folder = folder
        self.ranks = ranks
        self.profile = recording(ranks.device) if cfg.steps else None

    def before(self, step: int) -> None:
        """Called before each step."""
        if self.profile and step == self.first:
            self.profile.start()

    def after(self, step: int) -> None:
        """Called after each step, with what belongs to it."""
        if self.profile and step == self.last:
            if self.ranks.device.type == "cuda":
                torch.cuda.synchronize(self.ranks.device)  # the last step's kernels belong to it
            self.profile.stop()
            self.profile.export_chrome_trace(
                str(self.folder / f"trace_rank{self.ranks.rank}.json.gz")
            )
            if self.ranks.is_main:
                text = summary(self.profile, self.ranks.device, self.last - self.first + 1)
                (self.folder / SUMMARY).write_text(text, encoding="utf-8")
                print(text, flush=True)


def recording(device: torch.device) -> profile:
    """A recorder of host and device, not yet started."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    return profile(activities=activities)


def summary(recorded: profile, device: torch.device, steps: int) -> str:
    """How the time divides into computing, communicating and none, and the heaviest operations."""
    times: dict[str, list[float]] = {}
    for event in operations(recorded, device):
        inside = sum(child.time_range.elapsed_us() for child in event.cpu_children)
        times.setdefault(event.name, []).append(event.time_range.elapsed_us() - inside)
    computing, communicating = spans(recorded, device)
    busy = covered(computing + communicating)
    total = extent(computing + communicating)
    lines = [
        f"{steps} steps of {total / steps / 1e3:.2f} ms on rank 0, slower than when not recorded:",
        f"{covered(communicating) / total:7.1%} communication, "
        f"{(busy - covered(computing)) / total:.1%} while nothing else runs",
        f"{1 - busy / total:7.1%} no operation at all",
    ]
    for name in sorted(times, key=lambda name: -sum(times[name]))[:HEAVIEST]:
        spent, calls = sum(times[name]) / steps, len(times[name]) / steps
        share = spent * steps / total
        lines.append(f"{share:7.1%} {spent / 1e3:9.3f} ms {calls:7.1f} x {name}")
    return "\n".join(lines) + "\n"


def operations(recorded: profile, device: torch.device) -> Iterator[FunctionEvent]:
    """What the device did."""
    for event in recorded.events() or []:
        on_cpu = event.device_type.name == "CPU"
        if on_cpu == (device.type == "cpu") and (not on_cpu or event.name.startswith(OPERATIONS)):
            yield event


def spans(recorded: profile, device: torch.device) -> tuple[list[Span], list[Span]]:
    """When the device computed, and when it communicated."""
    computing: list[Span] = []
    communicating: list[Span] = []
    for event in operations(recorded, device):
        group = communicating if event.name.startswith(COMMUNICATION) else computing
        group.append((event.time_range.start, event.time_range.end))
    return computing, communicating


def covered(spans: Iterable[Span]) -> float:
    """The time that at least one of them takes."""
    time, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        time += max(0.0, end - max(start, until))
        until = max(until, end)
    return time


def extent(spans: Sequence[Span]) -> float:
    """From the first one's beginning to the last one's end."""
    return max(end for _, end in spans) - min(start for start, _ in spans)
