"""In place of a program's train.py: one rank, whose messages are counted phase by phase.

The processes and the store are real. The process group is torch's "fake" one, which sends nothing:
what NCCL sends by itself is not seen here. With LAB_BACKEND=gloo the group is Gloo's, and only set
up. The rank checks the hosts, trains two steps, evaluates, saves, resumes, trains a step, and fails
with all others.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import steps
import torch
import torch.distributed as dist
import train_as_written as train
from engine import checkpoint, distributed, failures
from tools.preflight import __main__ as preflight
from tools.preflight import rendezvous as meeting
from torch._C._distributed_c10d import Store
from torch.testing._internal.distributed import fake_pg

REQUESTS = ("add", "check", "compare_set", "delete_key", "get", "multi_get", "set", "wait")
JOINT = ("all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast", "gather_object")
BACKEND = os.environ["LAB_BACKEND"]
counts: dict[str, Counter[str]] = {}
current = ["start-up"]


def size(value: Any) -> int:
    """Bytes of what is sent or received, numbers as eight."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, list | tuple):
        return sum(map(size, value))
    return len(value) if isinstance(value, str | bytes) else 8


def note(kind: str, content: Any) -> None:
    """Count a message of the current phase."""
    found = counts.setdefault(current[-1], Counter())
    found[kind] += 1
    found[f"{kind} bytes"] += size(content)


class Counted(Store):
    """The real store, each request to which is counted; C++ code calls these methods, too."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store


def counted(name: str) -> Callable[..., Any]:
    """A method of the store that counts itself, with what it sends and gets."""

    def ask(self: Counted, *arguments: Any) -> Any:
        answer = getattr(self.store, name)(*arguments)
        note("requests", [*(a for a in arguments if isinstance(a, str | bytes | list)), answer])
        return answer

    return ask


for method in REQUESTS:
    setattr(Counted, method, counted(method))


def counting(connect: Callable[..., Any]) -> Callable[..., Any]:
    """What connects to the store, so that the store counts."""
    return lambda *arguments, **options: Counted(connect(*arguments, **options))


def meet(*arguments: Any, connect: Callable[..., Any] = meeting.rendezvous, **options: Any) -> Any:
    """As `rendezvous`."""
    store, rank, world_size = next(connect(*arguments, **options))
    yield Counted(store), rank, world_size


@contextmanager
def phase(name: str) -> Iterator[None]:
    """What is sent meanwhile belongs to this phase."""
    current.append(name)
    counts.setdefault(name, Counter())
    try:
        yield
    finally:
        current.pop()
        status = Path("/proc/self/smaps_rollup").read_text().splitlines()
        private = sum(int(line.split()[1]) for line in status if line.startswith("Private_Dirty"))
        links = [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
        counts[name]["MiB"] = round(private / 1024)
        counts[name]["sockets"] = sum(link.startswith("socket:") for link in links)


def within(name: str, owner: Any, function: str) -> None:
    """A function is a phase from now on."""
    original = getattr(owner, function)

    def call(*arguments: Any, **options: Any) -> Any:
        with phase(name):
            return original(*arguments, **options)

    setattr(owner, function, call)


def noting(name: str) -> None:
    """A collective is counted from now on."""
    original = getattr(dist, name)

    def call(*arguments: Any, **options: Any) -> Any:
        note("collectives", [a for a in arguments if isinstance(a, torch.Tensor)])
        return original(*arguments, **options)

    setattr(dist, name, call)


def as_group(_backend: str, init: Callable[..., None] = dist.init_process_group, **options: Any):
    """The group that this lab wants in place of the program's."""
    init(BACKEND, **options)


def stay(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """In place of an all-reduce of gradients, which a group that sends nothing cannot answer."""
    note("collectives", bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def start_state(*arguments: Any, start: Callable[..., Any] = train.start_state) -> Any:
    """As train.py has it, with gradients that stay."""
    state = start(*arguments)
    state.model.register_comm_hook(None, stay)
    return state


def evaluate(*arguments: Any, evaluate: Callable[..., Any] = steps.evaluate) -> dict[str, float]:
    """As steps.py has it, but finite: a rank without samples hears nothing of the others'."""
    return dict.fromkeys(evaluate(*arguments), 1.0)


def failed() -> ValueError:
    """An error, as it arrives at the end of a program."""
    try:
        int("no number")
    except ValueError as error:
        return error
    raise AssertionError


def main(argv: list[str]) -> None:
    """All phases."""
    train.start_state = start_state
    preflight.rendezvous.rendezvous = distributed.rendezvous = meet
    failures.create_c10d_store = counting(failures.create_c10d_store)
    dist.init_process_group = as_group
    for name in JOINT:
        noting(name)
    preflight.look_at_devices = lambda *_: []  # in the group, whose messages are not the store's
    if BACKEND == "gloo":
        with (
            phase("start-up"),
            distributed.session(train.config.load(Path("config.toml"), argv).ddp),
        ):
            return
    with phase("preflight"), suppress(SystemExit):  # its verdict is not the question here
        preflight.main(argv)
    steps.evaluate = evaluate
    within("step", steps, "train_step")
    within("evaluation", steps, "evaluate")
    within("save", checkpoint, "save")
    with phase("start-up"):
        train.main([*argv, "train.max_steps=2"])
    within("resume", checkpoint, "resume")
    with phase("start-up again"):
        train.main([*argv, "train.max_steps=3"])
    with phase("failure"):
        said = list(failures.explain(failed(), seconds=60))
    assert len(said) < 2, f"no rank is missing: {said}"


assert fake_pg
main(sys.argv[1:])
Path(f"counts-{os.environ['RANK']}.json").write_text(json.dumps(counts))
sys.stdout.flush()
os._exit(0)
