"""Writes checkpoints beside the training: rank 0 copies the state, and a thread writes the copy."""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from engine import distributed


class Memory:
    """Host memory for one state: made at the first save, and used again by all later ones."""

    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}  # 1-dim uint8, by the first name of what they hold

    def copied(self, values: Any) -> Any:
        """The same dictionaries, lists and tensors, in memory that no training step changes.

        Tensors that share memory share it in the copy too: a file holds it once.
        """
        copies = self._copied(values, "", {})
        if torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()  # the only wait of the host
        return copies

    def _copied(self, values: Any, name: str, known: dict[int, Tensor]) -> Any:
        if isinstance(values, dict):
            copies = copy.copy(values)  # with the versions that a model's state_dict carries
            copies.update({k: self._copied(v, f"{name}.{k}", known) for k, v in values.items()})
            return copies
        if isinstance(values, list):
            return [self._copied(v, f"{name}.{n}", known) for n, v in enumerate(values)]
        if not isinstance(values, Tensor):
            return values
        whole = values.untyped_storage()
        if whole.data_ptr() not in known:
            known[whole.data_ptr()] = self._filled(name, whole)
        memory = known[whole.data_ptr()].untyped_storage()
        empty = torch.empty(0, dtype=values.dtype)
        return empty.set_(memory, values.storage_offset(), values.shape, values.stride())

    def _filled(self, name: str, whole: UntypedStorage) -> Tensor:
        """A buffer with the bytes of a storage; those of a GPU arrive in pinned memory later."""
        on_gpu = whole.device.type == "cuda"
        buffer = self.buffers.get(name)
        if buffer is None or len(buffer) != whole.nbytes():
            buffer = torch.empty(whole.nbytes(), dtype=torch.uint8, pin_memory=on_gpu)
            self.buffers[name] = buffer
        source = torch.empty(0, dtype=torch.uint8, device=whole.device).set_(whole)
        return buffer.copy_(source, non_blocking=on_gpu)


class Writer:
    """One write at a time, beside the training. All ranks call the same functions."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.helper: ThreadPoolExecutor | None = None  # of rank 0, while it writes
        self.work: Future[None]
        self.failed = False  # the last write, on rank 0

    def start(self, process: distributed.Process, state: Any, write: Callable[[Any], None]) -> None:
        """Have a copy of the state written. Waits for the write before; see `check`."""

        def task() -> None:
            if process.device.type == "cuda":
                torch.cuda.set_device(process.device)  # of this thread, which waits for its copies
            self.settle()
            copies = self.memory.copied(state)
            self.helper = ThreadPoolExecutor(1)
            self.work = self.helper.submit(write, copies)

        distributed.on_main(process, task)

    def check(self, process: distributed.Process) -> None:
        """Tell a failure as soon as all ranks know of it; one more in a row ends the run.

        Waits for no write. Raises the error on all ranks; at once where the disk is not to blame.
        """
        failed = self.helper is not None and self.work.done() and self.work.exception() is not None
        if distributed.max_over_ranks(float(failed), process.device):
            self.wait(process)

    def wait(self, process: distributed.Process) -> None:
        """Wait until the newest checkpoint is on disk, or its failure is told as by `check`."""
        distributed.on_main(process, self.settle)

    def finish(self, process: distributed.Process) -> None:
        """Wait for the last checkpoint of all; raises its error on all ranks where it failed."""

        def task() -> None:
            self.failed = True  # there is no later save that could make up for this one
            self.settle()

        distributed.on_main(process, task)

    def settle(self) -> None:
        """Wait for the thread; raises its error, unless it is the first and of the disk."""
        if self.helper is None:
            return
        self.helper.shutdown()
        self.helper = None
        try:
            self.work.result()
            self.failed = False
        except OSError as error:
            if self.failed:
                raise
            self.failed = True
            print(f"warning: no checkpoint was written, the next one must be: {error}", flush=True)


writer = Writer()  # of this process, as there is one process group
