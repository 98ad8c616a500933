"""When a device computes and communicates, from a recording of torch's profiler."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

COMMUNICATION = ("nccl", "gloo:", "c10d::")  # the backends' names for their work
# The operations of a CPU. All other events, such as an optimizer's step, consist of operations.
# The events of a GPU are operations, except annotations.
OPERATIONS = (*COMMUNICATION, "aten::", "## Call CompiledFxGraph")

Span = tuple[float, float]  # begin and end in microseconds


def recording(device: torch.device) -> profile:
    """A recorder of host and device, not yet started."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    return profile(activities=activities, acc_events=True)  # without, PyTorch warns in each cycle


def operations(recorded: profile, device: torch.device) -> Iterator[FunctionEvent]:
    """The operations of the device."""
    for event in recorded.events() or []:
        on_cpu = event.device_type.name == "CPU"
        if on_cpu != (device.type == "cpu") or event.is_user_annotation:
            continue
        if not on_cpu or event.name.startswith(OPERATIONS):
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
    """The time inside at least one span."""
    time, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        time += max(0.0, end - max(start, until))
        until = max(until, end)
    return time


def extent(spans: Sequence[Span]) -> float:
    """The time from the first begin to the last end."""
    return max(end for _, end in spans) - min(start for start, _ in spans)
