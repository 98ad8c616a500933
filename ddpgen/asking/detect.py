"""What a machine and its cluster offer, as suggestions for answers.

The programs asked run at the same time, in the background and with a short time limit; whatever
goes wrong means "no suggestion". Facts have names of their own: `fact:` beside a question of
copier.yml says which of them answers it. Schedulers and networks are called as its choices are.
"""

import re
import subprocess
import unicodedata
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ddpgen.asking import questions
from ddpgen.asking.known import NODES, PROJECT_NAME
from ddpgen.asking.question import Answers, Value
from ddpgen.asking.questions import Questionnaire

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
        questionnaire = questions.load()
        match questionnaire.questions[name].meaning.fact:
            case "schedulers":
                return [*self._schedulers()] or None
            case "fabric":
                # Inside one node the GPUs' own links count, whatever the node's network.
                return (self._fabric.result() or None) if context[NODES] != 1 else None
            case "gpus":
                # A login node has no GPUs of its own: then the scheduler's count is better.
                return self._gpus.result() or self._first_partition().gpus_per_node or None
            case "queue":
                return self._first_partition().name or None
            case "gpu_model":
                chosen = context.get(questionnaire.by_fact["queue"])
                known = self._partitions.result() or []
                return next((p.gpu_type for p in known if p.name == chosen), "") or None
        return None

    def _schedulers(self) -> Iterator[str]:
        if self._partitions.result() is not None:
            yield "slurm"
        if self._kubernetes.result():
            yield "kubernetes"

    def _first_partition(self) -> Partition:
        """Return the default partition, or one without a name where there is none with GPUs."""
        return next(iter(self._partitions.result() or []), Partition("", "", 0))


def facts() -> dict[str, str | int]:
    """Return what this machine tells about the jobs of its cluster, by fact."""
    found: dict[str, str | int] = {}
    if known := partitions():
        first = known[0]
        found = {
            "queue": first.name,
            "gpus": first.gpus_per_node,
            "gpu_model": first.gpu_type,
            "cpus": max(1, first.cpus // first.gpus_per_node) if first.cpus else 0,
            "job_time": clock(first.time_limit) if first.time_limit else "",
        }
    found["fabric"] = fabric()
    return {fact: value for fact, value in found.items() if value}


def from_path(questionnaire: Questionnaire, path: Path) -> Answers:
    """Return the project name that a path suggests, if it gives a valid one."""
    ascii_name = unicodedata.normalize("NFKD", path.absolute().name).encode("ascii", "ignore")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", ascii_name.decode())
    name = re.sub(r"^[^A-Za-z]+", "", name)[:64].rstrip("._-")
    question = questionnaire.questions[PROJECT_NAME]
    return {} if questionnaire.refusal(question, name, {}) else {PROJECT_NAME: name}


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


def clock(seconds: int) -> str:
    """Write a time as HH:MM:SS."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


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
