"""What many ranks, large files and slow disks demand, shown with few ranks and small files."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch
from torch.distributed.elastic.utils.distributed import create_c10d_store

from product import forkserver, sources, template
from product.programs import completed
from product.test_programs import settings

PLAIN = completed({"model": "mlp", "amp": "off", "checkpoint": True, "compression": False})
WORLD = 64


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plainest project that saves, in the current folder; its modules can be imported."""
    folder = tmp_path / "project"
    template.write(PLAIN, folder)
    monkeypatch.chdir(folder)
    with sources.modules_of(folder):
        yield folder


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, store: Any, asked: list[str]) -> None:
        self.store, self.asked = store, asked

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            return getattr(self.store, name)(*arguments)

        return call


def fail(reason: str) -> Exception:
    """An error, as it arrives at the end of a program."""
    try:
        int("no number" if reason == "other" else 1 // 0)
    except (ValueError, ZeroDivisionError) as error:
        return error
    raise AssertionError


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("missing", [set(), {3, 17, 40}, {*range(1, WORLD)}])
def test_failed_ranks_ask_little(missing: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fail or do not: few requests for each; each traceback and the answer once."""
    failures = import_module("engine.failures")
    store = create_c10d_store(
        is_server=True, server_addr="127.0.0.1", server_port=0, wait_for_workers=False
    )
    asked: list[list[str]] = []

    def connect(*arguments: Any, **options: Any) -> Counted:
        asked.append([])
        return Counted(create_c10d_store(*arguments, **options), asked[-1])

    monkeypatch.setattr(failures, "create_c10d_store", connect)
    for name, value in forkserver.variables_of(0, WORLD, store.port).items():
        monkeypatch.setenv(name, value)
    said: list[str] = []

    def tell(error: Exception) -> None:
        said.extend(failures.explain(error, seconds=100))

    ranks = [rank for rank in range(WORLD) if rank not in missing]
    threads = []
    for number, rank in enumerate(ranks, start=1):
        monkeypatch.setenv("RANK", str(rank))
        error = fail("other" if rank == 5 else "alike")
        threads.append(threading.Thread(target=tell, args=(error,)))
        threads[-1].start()
        while threads[-1].is_alive() and store.add("failed/0", 0) < number:  # then the next rank
            time.sleep(0.001)
    if missing:  # the first rank has waited long enough for the others
        store.set(f"failed/0/{WORLD}", "")
    for thread in threads:
        thread.join()
    assert max(map(len, asked)) <= 8
    assert sum(map(len, asked)) <= 5 * len(ranks) + 8
    tracebacks = [words for words in said if words.startswith("Traceback")]
    assert len(tracebacks) == (2 if 5 in ranks else 1), "of each failure one"
    named = [words for words in said if words.startswith("no sign of rank")]
    assert [words.partition(": killed")[0] for words in named] == (
        [f"no sign of rank {', '.join(map(str, sorted(missing)))}"] if missing else []
    )


@pytest.mark.usefixtures("project")
def test_prepared_data_needs_no_lock() -> None:
    """Ranks that only look do not queue up."""
    config, loading = import_module("config"), import_module("engine.loading")
    cfg = config.load(config.DEFAULTS).data
    loading.prepare(cfg)
    with filelock.FileLock(Path(cfg.folder) / ".lock"):
        looking = threading.Thread(target=loading.prepare, args=(cfg,), daemon=True)
        looking.start()
        looking.join(5)
        assert not looking.is_alive(), "it waits for a lock that it does not need"


@pytest.mark.usefixtures("project")
def test_files_of_the_users_beside_checkpoints_stay(tmp_path: Path) -> None:
    """Under whatever name a checkpoint was copied, so that the rotation does not take it."""
    checkpoint = import_module("engine.checkpoint")
    for step in (1, 2):
        content = {"step": step, "best_step": 0, "config": {}}
        checkpoint.write(newest := checkpoint.path_of(tmp_path, step), content, 1)
    own = ["step_best.pt", "step_00000001_mine.pt", "step_00000001.good.pt", "step_x.json"]
    for name in own:
        (newest.parent / name).touch()
    checkpoint.rotate(newest, keep=1, best_step=0)
    assert {path.name for path in newest.parent.iterdir()} == {
        *own,
        newest.name,
        newest.with_suffix(".json").name,
    }
    assert checkpoint.newest_good(tmp_path) == str(newest)


@contextmanager
def changed(project: Path, code: str) -> Iterator[None]:
    """Have train.py do something else first; the project's own is `original`."""
    (project / "train.py").rename(project / "original.py")
    (project / "train.py").write_text(f"{code}\n")
    yield
    (project / "original.py").replace(project / "train.py")


SLOW = """
import time
import original
from engine import checkpoint, distributed

def write(*arguments, write=checkpoint.write):
    time.sleep(18)
    write(*arguments)

checkpoint.write = write
distributed.run(original.main)
"""


def test_save_may_take_longer_than_a_collective(project: Path, shared: Path) -> None:
    """The ranks that wait for rank 0's disk wait as long as rank 0 writes."""
    overrides = [*settings(PLAIN, shared), "train.max_steps=1", "ddp.timeout_seconds=15"]
    with changed(project, SLOW):
        run = forkserver.train(project, 2, overrides)
    assert run.codes == [0, 0], run.output[-3000:]


MAPPED = """
import os
from pathlib import Path
import original, steps
from engine import distributed
from engine.state import TrainState

def own():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

def restore(state, snapshot, is_main, restore=TrainState.restore):
    held = own() - before
    whole = sum(t.nbytes for t in snapshot["model"].values())
    restore(state, snapshot, is_main)
    path = Path("runs/run/checkpoints/step_00000002.pt")
    assert held < path.stat().st_size / 4, f"{held} bytes for a file of {path.stat().st_size}"
    os.truncate(path, 0)  # a part that is still mapped would end the process
    print("restored")

TrainState.restore = restore
def resume(*arguments, resume=original.checkpoint.resume):
    global before
    before = own()
    return resume(*arguments)

original.checkpoint.resume = resume
distributed.run(original.main)
"""


def test_checkpoint_is_not_copied_by_each_rank(project: Path, shared: Path) -> None:
    """A node reads the file once: ranks map it, and hold on to no part of it."""
    large = ["model.width=768", "checkpoint.every_steps=0", "optim.warmup_steps=0"]
    overrides = [*settings(PLAIN, shared), *large, "train.global_batch_size=2"]
    first = forkserver.train(project, 1, [*overrides, "train.max_steps=2"])
    assert first.codes == [0], first.output[-3000:]
    with changed(project, MAPPED):
        run = forkserver.train(project, 1, [*overrides, "train.max_steps=3"])
    assert run.codes == [0], run.output[-3000:]
    assert "restored" in run.output


HELD = """
import original, steps
from engine import distributed

places = []
def backward(state, *rest, backward=steps.backward):
    backward(state, *rest)
    places.append([parameter.grad.data_ptr() for parameter in state.model.parameters()])

def main():
    original.main()
    assert len(places) == 18 and all(place == places[0] for place in places)

steps.backward = backward
distributed.run(main)
"""
SENT = """
import torch.distributed as dist
import original, optim
from engine import distributed

def count(*arguments, broadcast=dist.broadcast, **options):
    counts[-1] += 1
    return broadcast(*arguments, **options)

def step(*arguments, step=optim.step):
    counts.append(0)
    return step(*arguments)

def main():
    original.main()
    assert max(counts[1:-1]) <= 2, counts

counts, dist.broadcast, optim.step = [0], count, step
distributed.run(main)
"""
LEAN = {
    "gradients are held once, in the buckets": ({"accumulation": True}, HELD),
    "a rank sends its share at once": ({"sharding": "zero1"}, SENT),
}


@pytest.mark.parametrize("promise", LEAN)
def test_steps_are_lean(promise: str, tmp_path: Path, shared: Path) -> None:
    """What a step does not copy, and does not send in pieces."""
    chosen, code = LEAN[promise]
    answers = completed({**PLAIN, **chosen})
    template.write(answers, tmp_path)
    quick = ["train.global_batch_size=12", "train.micro_batch_size=2"]
    overrides = [*settings(answers, shared), *(quick if "accumulation" in chosen else [])]
    with changed(tmp_path, code):
        run = forkserver.train(tmp_path, 2, [*overrides, "checkpoint.every_steps=0"])
    assert run.codes == [0, 0], run.output[-3000:]


def saved(project: Path) -> tuple[Any, Path]:
    """The project's module of checkpoints, and a run with two of them."""
    checkpoint, run = import_module("engine.checkpoint"), project / "runs/1"
    for step in (1, 2):
        content = {"step": step, "best_step": 0, "config": {}}
        checkpoint.write(checkpoint.path_of(run, step), content, 1)
    return checkpoint, run


def test_error_of_the_disk_is_no_damage(project: Path) -> None:
    """A good checkpoint that cannot be read at the moment is not passed over for an older one."""
    checkpoint, run = saved(project)
    newest = checkpoint.path_of(run, 2)
    newest.unlink()
    newest.symlink_to("/proc/self/mem")  # its first bytes cannot be read
    with pytest.raises(OSError, match=r"Input/output error: '.*step_00000002.pt'"):
        checkpoint.newest_good(run)
    newest.unlink()
    newest.mkdir()
    with pytest.raises(IsADirectoryError, match=r"step_00000002.pt"):
        checkpoint.newest_good(run)


def test_checkpoints_that_were_copied_without_their_manifests_stay(project: Path) -> None:
    """A run that began anew would remove them; one file may be of a first save that never ended."""
    checkpoint, run = saved(project)
    for path in (run / "checkpoints").glob("*.json"):
        path.unlink()
    with pytest.raises(checkpoint.config.ConfigError, match=r"no checkpoint of .* is good"):
        checkpoint.newest_good(run)
    checkpoint.path_of(run, 1).unlink()
    assert checkpoint.newest_good(run) == ""


@pytest.mark.parametrize(
    ("reason", "lasts"),
    [
        (RuntimeError("Error(s) in loading state_dict: Missing key(s) in state_dict: 'a'"), True),
        (RuntimeError("size mismatch for a"), True),
        (KeyError("done"), True),
        (ValueError("'cat' of the data changed"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), False),
        (torch.AcceleratorError("CUDA error: an illegal memory access"), False),
        # What torch makes of an error of the device while a tensor is copied.
        (RuntimeError("Error(s) in loading state_dict: While copying the parameter"), False),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), False),
    ],
)
def test_faults_of_a_device_are_no_mistakes(project: Path, reason: Exception, lasts: bool) -> None:
    """A restore that fails by them fails as an error, after which a launch file starts again."""
    checkpoint, run = saved(project)
    cfg = import_module("config").load(project / "config.toml")

    def restore(*_: Any) -> None:
        raise reason

    process = import_module("engine.distributed").Process(0, 0, 1, torch.device("cpu"))
    state = type("", (), {"restore": staticmethod(restore)})()
    expected = import_module("config").ConfigError if lasts else type(reason)
    with pytest.raises(expected, match="does not fit" if lasts else None):
        checkpoint.resume(run, state, cfg, process)
