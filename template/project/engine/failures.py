"""Explains a failed run: stacks, and the ranks that the others waited for in vain."""

import contextlib
import faulthandler
import os
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.elastic.utils.distributed import create_c10d_store


def prepare() -> None:
    """Have failures leave traces. Must run before the process group exists."""
    faulthandler.enable()  # stacks, where NCCL's watchdog aborts a process after a timeout
    # NCCL then writes its last collectives, a file per rank, which torchfrtrace compares.
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
    os.environ.setdefault("TORCH_FR_DUMP_TEMP_FILE", str(Path("flight_recorder_rank_").absolute()))


def explain(error: BaseException, seconds: float = 5.0) -> Iterator[str]:
    """The traceback, then the ranks that have not failed too, and where others waited for them.

    Every rank that fails must call it. Of ranks that fail alike the first tells the traceback, and
    the first of all names the missing ones: few messages per rank, over the launcher's store, as
    the group is of no use after a failure.
    """
    story = "".join(traceback.format_exception(error))
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        yield story
        return
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    attempt = "failed/" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:  # its host may be the one that is gone
        store = create_c10d_store(False, address, port, timeout=seconds, wait_for_workers=False)
        number = store.add(attempt, 1)
        store.set(f"{attempt}/{number}", str(rank))
        if store.add(f"{attempt}/{type(error).__name__}/{place(error)}", 1) == 1:
            yield story
            story = ""
        awaited = "told" if number > 1 else str(world_size)  # the answer, or the last rank
        with contextlib.suppress(dist.DistStoreError):  # some rank has not failed
            store.wait([f"{attempt}/{awaited}"], timedelta(seconds=seconds))
        if number == 1:
            failures = [f"{attempt}/{n + 1}" for n in range(store.add(attempt, 0))]
            missing = {*range(world_size)} - {int(text) for text in store.multi_get(failures)}
            if missing:
                yield (
                    f"no sign of rank {', '.join(map(str, sorted(missing)))}: killed, stopped, or "
                    f"busy with other work. Rank {rank} waited in {place(error)}"
                )
            store.set(f"{attempt}/told", "")
    except RuntimeError as unreachable:
        yield f"{story}rank {rank}: the other ranks cannot be asked: {unreachable}"


def place(error: BaseException) -> str:
    """The innermost line of this project, not of an environment inside it, that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    here, site = f"{Path(__file__).parents[1]}{os.sep}", f"{os.sep}site-packages{os.sep}"
    own = [f for f in frames if f.filename.startswith(here) and site not in f.filename] or frames
    return f"{own[-1].name}, {Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}"
