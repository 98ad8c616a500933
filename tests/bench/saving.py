"""Measures how long training stands still for a save, by the project's ways and by torch's own.

    python -m bench.saving                     in the folder tests; 124 million parameters
    python -m bench.saving --parameters 1000000 --saves 2

The model is a list of tensors, and a step sleeps, so that computing takes no core from writing:
what is measured is memory, files and the interpreter's lock.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

NAME = "saves"
PARAMETERS, SAVES = 124_000_000, 6
STEP = 0.02  # seconds
PLAIN, BLOCKING, BACKGROUND, ASYNC = "torch.save and fsync", "blocking", "background", "async_save"
WAYS = (PLAIN, BLOCKING, BACKGROUND, ASYNC)
# Run in a project's folder: how long each save held the loop up, in seconds, and what the steps
# beside the writing lost.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import config
from engine import checkpoint, distributed

way, count, saves = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
nap, run = float(sys.argv[4]), Path(sys.argv[5])


class State:
    step = best_step = 0
    tensors = {str(n): torch.rand(count // 16) for n in range(16 * 3)}  # weights and two moments

    def snapshot(self):
        return {**self.tensors, "step": self.step, "best_step": self.best_step}


def late():
    began = time.perf_counter()
    time.sleep(nap)
    sum(range(1000))
    return time.perf_counter() - began


def plain():
    with (run / "plain.pt.partial").open("wb") as file:
        torch.save(state.snapshot(), file)
        file.flush()
        os.fsync(file.fileno())
    (run / "plain.pt.partial").replace(run / "plain.pt")


def project():
    checkpoint.save(run, state, cfg, process)
    if writer := getattr(sys.modules.get("engine.background"), "writer", None):
        return writer.work.done


def asynchronous():
    writer = dcp.FileSystemWriter(run / "async", sync_files=True, overwrite=True)
    return dcp.async_save(state.snapshot(), storage_writer=writer, process_group=group).done


run.mkdir()
(run / checkpoint.OWNER).write_text(checkpoint.ME)
cfg = config.load(config.DEFAULTS, ["checkpoint.keep=1"])
process = distributed.Process(0, 0, 1, torch.device("cpu"))
if way == "async_save":
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    group = dist.group.WORLD
save = {"torch.save and fsync": plain, "async_save": asynchronous}.get(way, project)
usual = sorted(late() for _ in range(50))[25]
state, held, slower = State(), [], []
for _ in range(saves):
    state.step += 1
    began = time.perf_counter()
    done = save()
    held.append(time.perf_counter() - began)
    lost = 0.0
    while done:
        lost += max(0.0, late() - usual)
        if done():
            break
    slower.append(lost)
print(json.dumps([held, slower]), flush=True)
os._exit(0)
"""


def held_up(way: str, parameters: int, count: int, folder: Path) -> tuple[list[float], list[float]]:
    """Seconds of each call of `save`, and by how much the steps beside the writing took longer."""
    from ddpgen.rendering.render import render

    saves = way if way in (BLOCKING, BACKGROUND) else BLOCKING
    project = folder / saves
    if not project.exists():
        render({"saves": saves}, project)
    numbers = [str(parameters), str(count), str(STEP)]
    command = [sys.executable, "-c", PROGRAM, way, *numbers]
    with tempfile.TemporaryDirectory(dir=folder) as run:
        command.append(f"{run}/run")
        done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    held, slower = json.loads(done.stdout.splitlines()[-1])
    return held, slower


def measure(
    parameters: int = PARAMETERS, count: int = SAVES, folder: Path | None = None
) -> dict[str, list[float]]:
    """Seconds that each save but the first held the loop up, by the way that was taken.

    The first save allocates memory that later ones use again. A second list of each way, named
    with ", steps beside", holds what the steps beside the writing lost.
    """
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=folder) as build:
        for way in WAYS:
            held, slower = held_up(way, parameters, count, Path(build))
            times[way], times[f"{way}, steps beside"] = held[1:], slower[1:]
            print(f"  {way}: {statistics.median(held[1:]):.3f} s", flush=True)
    return times


def share(times: Mapping[str, list[float]], way: str, other: str) -> float:
    """How long a way holds the loop up, as a share of another one."""
    return statistics.median(times[way]) / statistics.median(times[other])


def main() -> None:
    """Print the figures of all ways, and the shares of the blocking save."""
    parser = argparse.ArgumentParser(description="Measure the stall of a save.")
    parser.add_argument("--parameters", type=int, default=PARAMETERS)
    parser.add_argument("--saves", type=int, default=SAVES)
    parser.add_argument("--folder", type=Path, default=None, help="where files are written")
    arguments = parser.parse_args()
    times = measure(arguments.parameters, arguments.saves, arguments.folder)
    for way in WAYS:
        print(f"{way}: {share(times, way, BLOCKING):.3f} of a blocking save")


if __name__ == "__main__":
    main()
