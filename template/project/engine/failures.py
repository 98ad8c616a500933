"""Explains a failed run: stacks, and the ranks that the others waited for in vain."""

import contextlib
import faulthandler
import os
import traceback
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


def explain(error: BaseException, seconds: float = 5.0) -> str:
    """Name the ranks that have not failed too, and where the others waited for them.

    Every rank that fails must call it. One rank gets the answer, the others ''. They use the
    launcher's store, because the process group is of no use after a failure.
    """
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        return ""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    attempt = "failed/" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        store = create_c10d_store(
            is_server=False,
            server_addr=address,
            server_port=port,
            timeout=seconds,  # its host may be the one that is gone
            wait_for_workers=False,
        )
        store.set(f"{attempt}/{rank}", "")
        is_first = store.add(attempt, 1) == 1
        failures = [f"{attempt}/{other}" for other in range(world_size)]
        with contextlib.suppress(dist.DistStoreError):  # some rank has not failed
            store.wait(failures, timedelta(seconds=seconds))
        failed = [store.check([failure]) for failure in failures]
    except RuntimeError as unreachable:
        return f"rank {rank}: the other ranks cannot be asked: {unreachable}"
    if all(failed) or not is_first:
        return ""
    missing = ", ".join(str(other) for other in range(world_size) if not failed[other])
    return (
        f"no sign of rank {missing}: killed, stopped, or busy with other work. "
        f"Rank {rank} waited in {place(error)}"
    )


def place(error: BaseException) -> str:
    """The innermost line of this project, not of an environment inside it, that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    here, site = f"{Path(__file__).parents[1]}{os.sep}", f"{os.sep}site-packages{os.sep}"
    own = [f for f in frames if f.filename.startswith(here) and site not in f.filename] or frames
    return f"{own[-1].name}, {Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}"
