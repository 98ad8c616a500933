"""What this machine and its cluster offer, as suggestions for answers.

The programs asked run at the same time, in the background and with a short time limit; whatever
goes wrong means "no suggestion". The one module that knows questions by name.
"""

import re
import subprocess
import unicodedata
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ddpgen.asking.questions import Answers, Questionnaire, Value

SECONDS = 2.0


@dataclass(frozen=True)
class Partition:
    """A SLURM partition with GPUs."""

    name: str
    gpu_type: str
    gpus_per_node: int
    cpus: int = 0  # of a node; 0: unknown
    time_limit: int = 0  # in seconds; 0: none
    features: frozenset[str] = frozenset()


class Detector:
    """Starts looking around at once; `suggest` waits only for what its question needs."""

    def __init__(self, infiniband: Path = Path("/sys/class/infiniband")) -> None:
        pool = ThreadPoolExecutor(max_workers=4)
        self._gpus: Future[int] = pool.submit(_count_gpus)
        self._partitions: Future[list[Partition] | None] = pool.submit(partitions)
        self._kubernetes: Future[bool] = pool.submit(_kubernetes)
        self._fabric: Future[str] = pool.submit(fabric, infiniband)
        pool.shutdown(wait=False)

    def suggest(self, name: str, context: Mapping[str, Value]) -> Value | None:
        """Return a value for a question under the answers before it, or None."""
        if name == "clusters":
            return self._clusters()
        if name == "network":
            # Inside one node the GPUs' own links count, whatever the node's network.
            return (self._fabric.result() or None) if context["nodes"] != 1 else None
        partitions = self._partitions.result() or []
        chosen = next((p for p in partitions if p.name == context.get("partition")), None)
        if name == "gpus_per_node":
            # A login node has no GPUs of its own: then the scheduler's count is the better one.
            count = self._gpus.result() or (partitions[0].gpus_per_node if partitions else 0)
            return count or None
        if name == "partition" and partitions:
            return partitions[0].name
        if name == "gpu_type" and chosen and chosen.gpu_type:
            return chosen.gpu_type
        return None

    def _clusters(self) -> Value | None:
        found = ["slurm"] * (self._partitions.result() is not None)
        found += ["kubernetes"] * self._kubernetes.result()
        return found or None


def from_path(questionnaire: Questionnaire, path: Path) -> Answers:
    """Return the project name that a path suggests, if it gives a valid one."""
    ascii_name = unicodedata.normalize("NFKD", path.absolute().name).encode("ascii", "ignore")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", ascii_name.decode())
    name = re.sub(r"^[^A-Za-z]+", "", name)[:64].rstrip("._-")
    question = questionnaire.questions["project_name"]
    return {} if questionnaire.refusal(question, name, {}) else {"project_name": name}


def _output(*command: str) -> str | None:
    """Return what a program prints, or None if it is not there, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _count_gpus() -> int:
    listing = _output("nvidia-smi", "-L") or ""
    return sum(line.startswith("GPU ") for line in listing.splitlines())


def partitions() -> list[Partition] | None:
    """Return the partitions with GPUs, the default one first; None without SLURM."""
    listing = _output("sinfo", "--noheader", "--format=%P|%G|%c|%l|%f")
    if listing is None:
        return None
    found: dict[str, Partition] = {}
    default = ""
    for line in listing.splitlines():
        label, gres, cpus, limit, features, *_ = [*line.strip().split("|"), "", "", "", ""]
        name = label.removesuffix("*")
        default = name if label.endswith("*") else default
        # gpu:a100:4(S:0-1), gpu:4, or (null)
        match = re.search(r"\bgpu(?::([A-Za-z][\w.-]*))?:(\d+)", gres)
        if match and name not in found:
            found[name] = Partition(
                name,
                match[1] or "",
                int(match[2]),
                int(re.sub(r"\D", "", cpus) or 0),
                seconds(limit),
                frozenset(features.split(",")) - {"", "(null)"},
            )
    return sorted(found.values(), key=lambda partition: partition.name != default)


def seconds(limit: str) -> int:
    """Read a time limit as SLURM writes it, [D-]HH:MM:SS or MM:SS; 0 for none."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if not match:
        return 0
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def _kubernetes() -> bool:
    return bool((_output("kubectl", "config", "current-context") or "").strip())


def fabric(infiniband: Path = Path("/sys/class/infiniband")) -> str:
    """Return the network choice that the first RDMA device stands for, or ""."""
    for device in sorted(infiniband.glob("*")):
        if (device / "device/driver").resolve().name == "efa":
            return "efa"
        link_layer = device / "ports/1/link_layer"
        if link_layer.is_file():
            return "infiniband" if link_layer.read_text().strip() == "InfiniBand" else "roce"
    return ""
