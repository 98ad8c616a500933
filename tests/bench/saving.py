"""Measures how long training stands still for a save: `saves=background` beside `saves=blocking`.

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
from pathlib import Path

from ddpgen.rendering.render import render

STEP = 0.02  # seconds
# Run in a project's folder: how long each save held the loop up, in seconds, the first one apart.
PROGRAM = """
import json, sys, time
from pathlib import Path
import torch
import config
from engine import checkpoint, distributed

count, saves, nap, run = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])


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


run.mkdir()
(run / checkpoint.OWNER).write_text(checkpoint.ME)
cfg = config.load(config.DEFAULTS, ["checkpoint.keep=1"])
process = distributed.Process(0, 0, 1, torch.device("cpu"))
usual = sorted(late() for _ in range(50))[25]
state, held, slower = State(), [], []
for _ in range(saves):
    state.step += 1
    began = time.perf_counter()
    checkpoint.save(run, state, cfg, process)
    held.append(time.perf_counter() - began)
    lost = 0.0
    while getattr(sys.modules.get("engine.background"), "writer", None):
        writer = sys.modules["engine.background"].writer
        lost += max(0.0, late() - usual)
        if writer.work.done():
            break
    slower.append(lost)
print(json.dumps([held, slower]))
"""


def held_up(saves: str, parameters: int, count: int, folder: Path) -> tuple[list[float], ...]:
    """Seconds of each call of `save`, and by how much the steps beside the writing took longer."""
    project = folder / saves
    if not project.exists():
        render({"saves": saves}, project)
    numbers = [str(parameters), str(count), str(STEP)]
    command = [sys.executable, "-c", PROGRAM, *numbers]
    with tempfile.TemporaryDirectory(dir=folder) as run:
        command.append(f"{run}/run")
        done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    held, slower = json.loads(done.stdout.splitlines()[-1])
    return held, slower


def main() -> None:
    """Print the figures of both, and the ratio of their medians."""
    parser = argparse.ArgumentParser(description="Measure the stall of a save.")
    parser.add_argument("--parameters", type=int, default=124_000_000)
    parser.add_argument("--saves", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=None, help="where files are written")
    arguments = parser.parse_args()
    medians = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for saves in ("blocking", "background"):
            held, slower = held_up(saves, arguments.parameters, arguments.saves, Path(folder))
            medians[saves] = statistics.median(held[1:])
            print(
                f"{saves}: first save {held[0]:.2f} s, later ones {medians[saves]:.3f} s (median), "
                f"steps beside the writing longer by {statistics.median(slower[1:]):.3f} s in all"
            )
    print(f"ratio of later saves: {medians['background'] / medians['blocking']:.3f}")


if __name__ == "__main__":
    main()
