"""Predicts steps that the model of a generated project was not fitted to, and measures them; then
measures what each lever of communication brings.

    python -m scaling_lab            in the folder tests: ten minutes; writes docs/scaling.md
    python -m scaling_lab --quick    two cases, to see that it works; writes build/scaling

As root, ranks are hosts with cables of a known rate: network namespaces. Link and slowdown come
from one run of two ranks. For all others the model gets what a rank does by itself, measured there
under `no_sync` since the ranks share this machine's cores, and says how long it waits.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from clusters.network import Network, network

from scaling_lab import page

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "scaling"
HOSTS = ("host1", "host2", "host3", "host4")
PORT = "29400"
BASE = {
    "ddp.device": "cpu",
    "ddp.timeout_seconds": "120",
    "data.folder": str(BUILD / "data"),
    "model.width": "512",
    "ddp.bucket_mb": "1",
}
SAMPLES = 64  # of a rank per step


@dataclass(frozen=True)
class Case:
    """One measured run."""

    words: str
    ranks: int = 2
    mbit: int = 500  # of each cable; 0: the machine's own loopback
    samples: int = SAMPLES
    changes: tuple[tuple[str, str], ...] = ()

    def overrides(self) -> list[str]:
        """What the command line says."""
        batch = {"train.global_batch_size": str(self.samples * self.ranks)}
        return [f"{key}={value}" for key, value in (BASE | batch | dict(self.changes)).items()]


def changed(key: str, value: str) -> tuple[tuple[str, str], ...]:
    return ((key, value),)


# The first of each group is what is fitted to.
CABLES = (
    Case("2 ranks, 500 Mbit/s, 1 MiB buckets, width 512"),
    Case("3 ranks", ranks=3),
    Case("4 ranks", ranks=4),
    Case("buckets of 25 MiB: one", changes=changed("ddp.bucket_mb", "25")),
    Case("width 256", changes=changed("model.width", "256")),
    Case("width 768", changes=changed("model.width", "768")),
    Case("four times the samples", samples=4 * SAMPLES),
    Case("bfloat16 travels", changes=changed("ddp.compress", "bf16")),
    Case("200 Mbit/s", mbit=200),
    Case("1000 Mbit/s", mbit=1000),
    Case("4 ranks, 200 Mbit/s, one bucket", 4, 200, changes=changed("ddp.bucket_mb", "25")),
)
LOOPBACK = (
    Case("2 ranks, loopback, 1 MiB buckets, width 512", mbit=0),
    Case("buckets of 25 MiB: one", mbit=0, changes=changed("ddp.bucket_mb", "25")),
    Case("width 768", mbit=0, changes=changed("model.width", "768")),
)


LARGE = changed("model.width", "1024") + changed("ddp.bucket_mb", "0")  # 34 MB of gradients
LEVERS = (
    ("the defaults", ()),
    ("`bucket_mb=1`", changed("ddp.bucket_mb", "1")),
    ("`bucket_mb=5`", changed("ddp.bucket_mb", "5")),
    ("`bucket_mb=100`: one", changed("ddp.bucket_mb", "100")),
    ("`gradient_as_bucket_view=false`", changed("ddp.gradient_as_bucket_view", "false")),
    ("`static_graph=true`", changed("ddp.static_graph", "true")),
    ('`compress="bf16"`', changed("ddp.compress", "bf16")),
    ('`compress="fp16"`', changed("ddp.compress", "fp16")),
    (
        '`compress="powersgd"`',
        changed("ddp.compress", "powersgd") + changed("ddp.powersgd_after", "2"),
    ),
    ("the defaults, again", ()),
)


@contextmanager
def hosts_of(case: Case, folder: Path) -> Iterator[Network]:
    """Hosts whose cables carry so many bits per second in each direction."""
    folder.mkdir(parents=True, exist_ok=True)
    with network(HOSTS[: case.ranks], folder) as hosts:
        limit = ["root", "tbf", "rate", f"{case.mbit}mbit", "burst", "64kb", "latency", "100ms"]
        for name in hosts.names:
            for space, device in ((name, "eth0"), ("switch", name)):
                command = ["tc", "-n", f"{hosts.prefix}-{space}", "qdisc", "add", "dev", device]
                subprocess.run([*command, *limit], check=True)
        yield hosts


def run(case: Case, project: Path) -> dict[str, Any]:
    """The world of one case, as tools.scaling wrote it."""
    result = BUILD / "world.json"
    result.unlink(missing_ok=True)
    program = [
        sys.executable,
        "-m",
        "tools.scaling",
        f"--json={result}",
        f"--png={BUILD / 'world.png'}",
    ]
    with hosts_of(case, BUILD / "hosts") if case.mbit else nullcontext() as hosts:
        ranks = []
        for rank in range(case.ranks):
            variables = {
                "RANK": str(rank),
                "LOCAL_RANK": "0",
                "WORLD_SIZE": str(case.ranks),
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": hosts.address(HOSTS[0]) if hosts else "127.0.0.1",
                "MASTER_PORT": PORT,
                "GLOO_SOCKET_IFNAME": "eth0" if hosts else "lo",
                "OMP_NUM_THREADS": "1",
            }
            command = [*program, *case.overrides()]
            if hosts:
                command = hosts.inside(HOSTS[rank], *command)
            environment = os.environ | variables
            log = (BUILD / f"rank{rank}.log").open("w")
            ranks.append(
                subprocess.Popen(command, cwd=project, env=environment, stdout=log, stderr=log)
            )
        codes = [process.wait(300) for process in ranks]
    if any(codes):
        raise SystemExit((BUILD / "rank0.log").read_text()[-3000:])
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def prepare() -> Path:
    """The default project in float32, with its data."""
    from ddpgen.rendering.render import render

    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    project = BUILD / "project"
    answers = {"model": "mlp", "amp": "off", "tools": ["scaling"], "compression": True}
    render(answers, project)
    command = [sys.executable, "train.py", "--prepare-only", f"data.folder={BUILD / 'data'}"]
    subprocess.run(command, cwd=project, check=True)
    return project


def measure(group: Sequence[Case], project: Path, model: Any) -> list[dict[str, Any]]:
    """Fit to the first case, predict and measure the others."""
    rows: list[dict[str, Any]] = []
    fitted: Any = None
    for case in group:
        begin = time.monotonic()
        found = run(case, project)
        world = found["worlds"][0]
        if fitted is None:
            fitted = found["here"]
        step = model.Step(
            *(world["alone"][part] for part in ("compute", "host", "data")),
            tuple((ready, size) for ready, size in world["alone"]["gradients"]),
        )
        faster = case.mbit / group[0].mbit if case.mbit else 1.0
        link = model.Link(fitted["within"]["latency"], fitted["within"]["bandwidth"] * faster)
        here = found["here"]
        connected = model.Network(
            link, link, 1, "ring", here["bucket"], here["wire"], fitted["slowdown"]
        )
        rows.append(
            {
                "words": case.words,
                "ranks": case.ranks,
                "mbit": case.mbit,
                "alone": step.total,
                "measured": world["step"],
                "predicted": model.seconds(step, case.ranks, connected),
                "load": os.getloadavg()[0],
                "bandwidth": here["within"]["bandwidth"],
                "latency": here["within"]["latency"],
                "slowdown": here["slowdown"],
            }
        )
        row = rows[-1]
        print(
            f"{case.words}: measured {1e3 * row['measured']:.1f} ms, predicted "
            f"{1e3 * row['predicted']:.1f}, alone {1e3 * row['alone']:.1f}, link "
            f"{row['bandwidth'] / 1e6:.1f} MB/s {1e6 * row['latency']:.0f} us, slowdown "
            f"{row['slowdown']:.2f} ({time.monotonic() - begin:.0f} s)",
            flush=True,
        )
    return rows


def levers(chosen: Sequence[tuple[str, Any]], project: Path, mbit: int) -> list[dict[str, Any]]:
    """What each lever of communication makes of a step of two ranks."""
    rows = []
    for words, changes in chosen:
        world = run(Case(words, mbit=mbit, changes=LARGE + changes), project)["worlds"][0]
        rows.append({"words": words, "step": world["step"], "waited": world["waited"]})
        print(f"{words}: {1e3 * world['step']:.1f} ms", flush=True)
    return rows


def published(model: Any) -> dict[str, Any]:
    """Goyal et al. 2017, arXiv:1706.02677: ResNet-50 on 32 nodes of 8 GPUs, 32 images each.

    Stated there: 100 MB of gradients, 120 ms of backward pass, 50 Gbit/s between nodes, an
    all-reduce with a number of messages that grows as the logarithm of the nodes, and about 90 % of
    the speed per GPU that one node has. Not stated, and assumed here: a forward pass half as long,
    20 GB/s and 5 us inside a node, 20 us between nodes, gradients that come evenly.
    """
    parts = 100
    gradients = tuple((0.06 + 0.12 * (n + 1) / parts, 10**8 // parts) for n in range(parts))
    step = model.Step(0.18, 0.0, 0.0, gradients)
    inner, outer = model.Link(5e-6, 20e9), model.Link(20e-6, 50e9 / 8)
    connected = model.Network(inner, outer, 8, "tree", 2**20, 1.0)
    efficiency = model.seconds(step, 8, connected) / model.seconds(step, 256, connected)
    return {"predicted": efficiency, "measured": 0.9}


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    project = prepare()
    sys.path.insert(0, str(project))
    from tools.scaling import prediction

    groups = {"cables": CABLES, "loopback": LOOPBACK}
    rates, chosen = {"500 Mbit/s": 500, "loopback": 0}, LEVERS
    if os.geteuid() or not shutil.which("tc"):
        print("without root and tc there are no cables: loopback only", file=sys.stderr)
        del groups["cables"], rates["500 Mbit/s"]
    if arguments.quick:
        groups = {name: group[:2] for name, group in groups.items()}
        rates, chosen = {"loopback": 0}, LEVERS[:2]
    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        **{name: measure(group, project, prediction) for name, group in groups.items()},
        "levers": {name: levers(chosen, project, mbit) for name, mbit in rates.items()},
        "published": published(prediction),
    }
    folder = BUILD if arguments.quick else ROOT / "docs"
    (folder / "scaling.json").write_text(json.dumps(results, indent=1) + "\n")
    page.write(results, folder)
    print(folder / "scaling.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
