"""How training scales: measured on 1, 2, 4 ... ranks, predicted for more, with what would help.

    python -m tools.scaling                                  all GPUs or cores of this machine
    torchrun --nproc-per-node=8 ... -m tools.scaling         the world that it is started in
    python -m tools.scaling --ranks 512 --ranks-per-node 8 --bandwidth 400 --latency 5

Every rank takes the same number of samples, however many ranks there are. The model is in
prediction.py, what is measured in timing.py.
"""

import argparse
import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import torch

import config
from engine import distributed, loading
from tools.scaling import prediction, scaling_report, timing


def main() -> None:
    """Measure, predict, and say what would help."""
    arguments = options()
    cfg = config.load(arguments.config, arguments.overrides)
    loading.prepare(cfg.data)
    if arguments.prepare_only:
        return
    if "WORLD_SIZE" in os.environ:
        with distributed.session(cfg.ddp) as ranks:
            worlds = [timing.measure(cfg, ranks)]
        if not ranks.is_main:
            return
    else:
        worlds = measure_here(cfg, arguments)
    here = network_here(worlds[-1], cfg.ddp)
    beyond = network_beyond(worlds[-1], here, arguments)
    rows = [
        *scaling_report.measured(worlds, here),
        *(scaling_report.extrapolated(worlds, beyond) if beyond else []),
    ]
    scaling_report.show(worlds[-1], rows, here)
    wanted = arguments.ranks or cfg.ddp.expected_world_size or worlds[-1].ranks
    for line in scaling_report.advice(worlds[-1], rows, wanted, beyond):
        print(line)
    scaling_report.draw(rows, arguments.png)
    if arguments.json:
        found = {
            "worlds": [asdict(world) for world in worlds],
            "here": asdict(here) if worlds[-1].ranks > 1 else None,
            "beyond": asdict(beyond) if beyond else None,
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = config.parser("Measure how training scales, and predict it for more ranks.")
    add = parser.add_argument
    add("--processes", type=int, help="at most so many ranks; else one per GPU, or per core")
    add("--prepare-only", action="store_true", help="prepare this node's data and exit")
    add("--json", type=Path, help="write all figures to this file")
    add("--png", type=Path, default=Path("scaling.png"), help="where the plot goes")
    add("--ranks", type=int, help="what would help on so many ranks")
    add("--ranks-per-node", type=int, help="of the worlds that are predicted")
    add("--bandwidth", type=float, help="GB/s between two nodes, all ranks of one together")
    add("--latency", type=float, help="microseconds of a message between two nodes")
    add("--bandwidth-within", type=float, help="GB/s between two ranks of a node")
    add("--latency-within", type=float, help="microseconds of a message inside a node")
    add("--algorithm", choices=prediction.ALGORITHMS, default="auto", help="of the all-reduce")
    return parser.parse_args()


def measure_here(cfg: config.Config, arguments: argparse.Namespace) -> list[timing.World]:
    """Worlds of this machine: powers of two, and all there is."""
    cores = os.cpu_count() or 1
    gpus = torch.cuda.device_count() if cfg.ddp.device != "cpu" else 0
    most = arguments.processes or gpus or cores
    # The same for all of them: threads that a small world has more of are no loss of a large one.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // most)))
    share = max(1, cfg.train.global_batch_size // (cfg.ddp.expected_world_size or most))
    worlds = []
    for ranks in sorted({most, *(2**n for n in range(most.bit_length()))}):
        fixed = [f"train.global_batch_size={share * ranks}", "ddp.expected_world_size=0"]
        argv = ["--config", str(arguments.config), *arguments.overrides, *fixed]
        worlds.append(distributed.run_locally(ranks, timing.measure_world, argv))
    return worlds


def network_here(world: timing.World, cfg: config.DDP) -> prediction.Network:
    """The network as it was measured, one link standing for all; in a world of one, none."""
    bucket = cfg.bucket_mb * prediction.MIB
    wire = {"none": 1.0, "bf16": 0.5, "fp16": 0.5, "powersgd": 0.0}[cfg.compress]
    if world.ranks == 1:
        none = prediction.Link(0.0, math.inf)
        return prediction.Network(none, none, 1, "ring", bucket, wire)
    link = prediction.fit_link(world.ranks, world.all_reduces)
    network = prediction.Network(link, link, world.ranks_per_node, "ring", bucket, wire)
    slowdown = prediction.fit_slowdown(world.alone, world.ranks, network, world.waited)
    return replace(network, slowdown=slowdown)


def network_beyond(
    world: timing.World, here: prediction.Network, arguments: argparse.Namespace
) -> prediction.Network | None:
    """The network of the worlds that are predicted: links as given, else as measured.

    None where neither is known, or PowerSGD sends what only the matrices' shapes tell.
    """
    between = replace_link(here.between, arguments.bandwidth, arguments.latency)
    within = replace_link(here.within, arguments.bandwidth_within, arguments.latency_within)
    if not here.wire or math.isinf(between.bandwidth):
        return None
    return replace(
        here,
        within=between if math.isinf(within.bandwidth) else within,
        between=between,
        ranks_per_node=arguments.ranks_per_node or world.ranks_per_node,
        algorithm=arguments.algorithm,
    )


def replace_link(
    link: prediction.Link, gigabytes: float | None, microseconds: float | None
) -> prediction.Link:
    """The link, with what is given in place of what was measured."""
    return prediction.Link(
        link.latency if microseconds is None else microseconds / 1e6,
        link.bandwidth if gigabytes is None else gigabytes * 1e9,
    )


if __name__ == "__main__":
    distributed.run(main)
