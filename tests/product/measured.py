"""Beside a project's train.py: the memory of its third step, and what tools.memory says of it.

What lies there before the step is asked of the objects themselves. What the step adds are the CPU
allocator's own counts, which see what no estimate looks at: what kernels take for themselves. They
miss what Gloo's threads free, so that gradients stay where they are, unless a hook of the project's
own sends them.
"""

import json
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

import config
import data
import original as train  # the project's train.py, in whose place this is
import steps
import torch
import torch.distributed as dist
from engine import distributed, loading
from tools.memory import __main__ as memory
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = 3  # DDP has formed its buckets anew, the moments are there
NAME = "step that is measured"


def constant_rate(done: Tensor) -> Tensor:
    return torch.full_like(done, 1e-3)


def stay(_: object, bucket: dist.GradBucket) -> Future[Tensor]:
    """In place of a bucket's all-reduce."""
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done


class Stay:
    """In place of FSDP's collectives, since Gloo's own copies are none of what the step needs."""

    @staticmethod
    def allocate(size: list[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **_: object) -> None:
        """An all-gather, or a reduce-scatter, among ranks that have the same."""
        size = min(output_tensor.numel(), input_tensor.numel())
        for row in output_tensor.view(-1, size):  # of one of which the input may be a view
            row.copy_(input_tensor[:size])


def lasting(state: Any, step_batch: Any) -> int:
    """Bytes that are there before a step: weights, moments, buckets, and the step's first batch."""
    optimizer = getattr(state.optimizer, "optim", state.optimizer)  # the one that ZeRO-1 wraps
    moments = [t for of_one in optimizer.state.values() for t in of_one.values()]
    batch = step_batch.batches[0] if hasattr(step_batch, "batches") else step_batch.batch
    tensors = [*state.model.parameters(), *state.model.buffers(), *moments, *batch]
    if not isinstance(state.model, DistributedDataParallel):  # FSDP: shares, filled up
        stores = [t.to_local() if isinstance(t, DTensor) else t for t in tensors]
        return sum(t.untyped_storage().nbytes() for t in stores)
    if not state.model.gradient_as_bucket_view:  # beside the buckets, where they are kept
        tensors += [p.grad for p in state.model.parameters() if p.grad is not None]
    facts = state.model._get_ddp_logging_data()
    sizes = facts.get("rebuilt_bucket_sizes") or facts["bucket_sizes"]
    return sum(tensor.nbytes for tensor in tensors) + sum(map(int, sizes.split(",")))


def train_steps(cfg: config.Config, process: distributed.Process) -> tuple[int, int]:
    """As train.fit does it; returns what lay there before the last step, and PowerSGD's errors."""
    splits = data.open_splits(cfg.data)
    batches = loading.plan(cfg.train, process.world_size)
    loaders = loading.build(splits, cfg, process, batches)
    state = train.start_state(cfg, splits.shape, process)
    compress = cfg.ddp.compress if hasattr(cfg, "ddp") else ""
    if compress == "none":
        state.model.register_comm_hook(None, stay)
    for part in state.model.modules():
        if isinstance(part, FSDPModule):
            part.set_custom_all_gather(Stay())
            part.set_custom_reduce_scatter(Stay())
    saves = "checkpoint" in vars(cfg)
    loaders.shard.start(0, *([0] if saves else []))
    step_batches = loading.step_batches(loaders, STEPS, *([bool] if saves else []))
    for number, step_batch in enumerate(step_batches, 1):
        before = lasting(state, step_batch)
        with record_function(NAME if number == STEPS else "another"):
            steps.train_step(state, step_batch, cfg, process, constant_rate)
    assert state.step == STEPS, "too little data"
    errors = state.compressor.error_dict if compress == "powersgd" else {}
    return before, sum(error.nbytes for error in errors.values())


def added(trace: Path) -> int:
    """The most bytes that the last step had allocated beyond those before it."""
    events = json.loads(trace.read_text())["traceEvents"]
    (step,) = (event for event in events if event.get("name") == NAME)
    end = step["ts"] + step["dur"]
    found = [(e["ts"], e["args"]) for e in events if e.get("name") == "[memory]"]
    counts = sorted(found, key=itemgetter(0))  # of several threads
    before = [f["Total Allocated"] for at, f in counts if at < step["ts"]]
    return max(f["Total Allocated"] for at, f in counts if step["ts"] <= at <= end) - before[-1]


def main() -> None:
    """Leave the numbers in a file."""
    for name in ("_is_mkldnn_bf16_supported", "_is_mkldnn_fp16_supported"):
        vars(torch.ops.mkldnn).pop(name, None)  # as this CPU does it: emulation takes more memory
    cfg = config.load(Path("config.toml"), sys.argv[1:])
    loading.prepare(cfg.data)
    with distributed.session(cfg.ddp if hasattr(cfg, "ddp") else cfg.fsdp) as process:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            before, errors = train_steps(cfg, process)
        trace = Path(f"trace{process.rank}.json")
        recorded.export_chrome_trace(str(trace))
        layout = memory.lay_out(cfg, process.world_size)
        found = memory.estimate(cfg, layout, process.device)
        numbers = {
            "measured": before + added(trace),
            "estimated": found.total,
            "parts": found.parts,
            "errors": errors,
        }
        Path(f"memory{process.rank}.json").write_text(json.dumps(numbers))


if __name__ == "__main__":
    distributed.run(main)
