"""A checkpoint is a folder with a share of each rank, and counts when all of them are in it."""

import json
import os
import pickle
import re
import resource
import shutil
import signal
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorProperties
from torch.testing import assert_close

import config
from engine import checkpoint, distributed, folders, report
from support import common, processes
from tools import whole

RANKS = 3
STEPS = 7  # saves after steps 2, 3, 4, 6 and 7
SETTINGS = [*common.SMALL, "run.name=run", f"train.max_steps={STEPS}", "checkpoint.every_steps=2"]
NEWEST = "step_00000007.pt"


def content(folder: Path) -> dict[str, Any]:
    """What the last checkpoint of a run holds, but for the config, which names the folder."""
    found = folders.whole(checkpoint.path_of(folder / "run", STEPS))
    return {name: value for name, value in found.items() if name != "config"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing stopped; tests copy it."""
    folder = tmp_path_factory.mktemp("trained")
    processes.run(RANKS, common.train_short_epochs, [f"run.folder={folder}", *SETTINGS])
    return folder


def test_each_rank_writes_its_share(trained: Path, tmp_path: Path) -> None:
    """Each file has a share of the state, and all together have the state once, on nodes too."""
    argv = [f"run.folder={tmp_path}", *SETTINGS, "fsdp.shard_over=node"]
    world = processes.World(4, common.train_short_epochs, argv, per_node=2)
    assert world.end() == [0] * 4
    for folder in (trained, tmp_path):
        path = checkpoint.path_of(folder / "run", STEPS)
        manifest = json.loads(path.with_suffix(".json").read_text())
        names = {file.name for file in path.iterdir()}
        shares = {f"__{rank}_0.distcp" for rank in range(manifest["world_size"])}
        assert names == manifest["sha256"].keys() == shares | {folders.REST, folders.CONTENTS}
        held = folders.opened(path)
        assert all(weight.is_meta for weight in held["model"].values()), "rank 0 has whole weights"
        full = sum(value.nbytes for value in held["model"].values()) * 3
        sizes = [(path / name).stat().st_size for name in shares]
        overhead = 4000 * 3 * len(held["model"])
        assert max(sizes) < full / 2 + overhead
        assert full <= sum(sizes) < 1.1 * full + overhead * len(sizes)


def test_goes_on_on_other_ranks_and_from_one_file(trained: Path, tmp_path: Path) -> None:
    """Two ranks go on from the shares of three, and from a file as other projects write it."""
    run = tmp_path / "shares" / "run"
    shutil.copytree(trained / "run", run)
    (tmp_path / "file").mkdir()
    whole.main([str(run), str(tmp_path / "file" / "run")])
    file = checkpoint.path_of(tmp_path / "file" / "run", STEPS)
    assert checkpoint.problem(file) == ""
    assert file.is_file()
    assert_close(content(tmp_path / "file"), content(trained), rtol=0, atol=0)
    found = []
    for kind in ("shares", "file"):
        argv = [f"run.folder={tmp_path / kind}", *SETTINGS, f"train.max_steps={STEPS + 2}"]
        processes.run(2, common.train_short_epochs, argv)
        path = checkpoint.path_of(tmp_path / kind / "run", STEPS + 2)
        assert path.is_dir()
        found.append({k: v for k, v in folders.whole(path).items() if k != "config"})
    assert_close(found[0], found[1], rtol=0, atol=0)
    assert common.history(tmp_path / "shares/run") == common.history(tmp_path / "file/run")


def train_and_die(argv: list[str]) -> None:
    """Train; rank 1 is killed when it has written its share of the third save."""
    left, digest = [1, 2, 3], folders.digest

    def die(path: Path) -> str:
        if left.pop() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return digest(path)

    if os.environ["RANK"] == "1":
        common.replace(folders, "digest", die)
    common.train_short_epochs(argv)


def test_kill_in_a_save_leaves_the_one_before(trained: Path, tmp_path: Path) -> None:
    """What one rank did not finish never counts; the run goes on from the checkpoint before."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    codes = processes.World(RANKS, train_and_die, argv).end(first_failure=True)
    assert codes[1] == -signal.SIGKILL
    saves = tmp_path / "run" / checkpoint.FOLDER
    assert Path(checkpoint.newest_good(tmp_path / "run")).name == "step_00000003.pt"
    assert len([*saves.glob("*.partial")]) == 1, "it was not inside a save"
    assert processes.World(RANKS, common.train_short_epochs, argv).end() == [0] * RANKS
    assert_close(content(tmp_path), content(trained), rtol=0, atol=0)
    assert not [*saves.glob("*.partial")]
    checkpoint.rotate(path := saves / NEWEST, keep=1, best_step=STEPS)
    assert {file.name for file in saves.iterdir()} == {path.name, path.with_suffix(".json").name}


def train_on_a_full_disk(argv: list[str]) -> None:
    """Train; after step 4 rank 1 can write no more than a few bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(state: Any) -> None:
        if state.step == 4 and os.environ["RANK"] == "1":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))

    common.before_step(fill)
    try:
        common.train_short_epochs(argv)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_failed_share_keeps_what_is_there(tmp_path: Path) -> None:
    """All ranks end with the reason of the rank that failed, and earlier checkpoints are good."""
    world = processes.World(RANKS, train_on_a_full_disk, [f"run.folder={tmp_path}", *SETTINGS])
    assert world.end() == [1] * RANKS
    for rank in range(RANKS):
        *_, told = world.answer(rank)["error"].splitlines()
        assert told.startswith("RuntimeError: "), "a mistake of the user's, which ends the job"
        assert "rank 1 cannot write: [Errno 27] File too large" in told
    found = checkpoint.found(tmp_path / "run" / checkpoint.FOLDER)
    assert [checkpoint.problem(path) for path in found] == [""] * 3


def test_share_is_copied_by_the_rank_s_own_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread begins with the first GPU: torch's writer would wait for copies of that one."""
    chosen = list[torch.device]()
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(FileSystemWriter, "write_data", lambda *_: len(chosen))
    process = distributed.Process(0, 3, 1, torch.device("cuda", 3))
    chosen_before: Any = folders.Writer(tmp_path, process).write_data()
    assert (chosen_before, chosen) == (1, [process.device]), "another GPU's copies are waited for"


def train_apart(argv: list[str]) -> None:
    """Train; rank 2 is on a node that has its own disk in this place."""
    if os.environ["RANK"] == "2":
        shared = report.run_folder
        common.replace(report, "run_folder", lambda *rest: shared(*rest).with_name("here"))
    common.train_short_epochs(argv)


@pytest.mark.parametrize("copied", [False, True])
def test_nodes_must_share_the_folder(copied: bool, trained: Path, tmp_path: Path) -> None:
    """A node's own disk has nothing, or a copy of the run: the node says so, and trains nothing."""
    if copied:
        for name in ("run", "here"):
            shutil.copytree(trained / "run", tmp_path / name)
        (tmp_path / "here" / checkpoint.OWNER).write_text("an older start")
    argv = [f"run.folder={tmp_path}", *SETTINGS, f"train.max_steps={STEPS + 1}"]
    world = processes.World(RANKS, train_apart, argv)
    assert world.end(first_failure=True)[2] == 1
    assert "all nodes must share run.folder" in world.answer(2)["error"]


def train_without_rank_2(argv: list[str], lost: str) -> None:
    """Train; rank 0 does not see the file of rank 2, or does not hear that the file is written."""
    digest, on_main = folders.digest, distributed.on_main

    def take_away(path: Path) -> str:
        found = digest(path)
        if path.name == "__2_0.distcp":
            path.unlink()
        return found

    def hear(process: distributed.Process, task: Any) -> str:
        if task is str and not process.is_main and os.environ["RANK"] == "0":
            raise dist.DistStoreError("rank 2 is silent for too long")
        return on_main(process, task)

    common.replace(folders, *(("digest", take_away) if lost == "file" else ("on_main", hear)))
    common.train_short_epochs(argv)


@pytest.mark.parametrize(
    "lost, words", [("file", "lacks __2_0.distcp: all nodes must"), ("word", "not all ranks said")]
)
def test_folder_without_a_share_never_counts(lost: str, words: str, tmp_path: Path) -> None:
    """The other shares are there, and all ranks end with the reason."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    world = processes.World(RANKS, train_without_rank_2, argv, lost)
    assert world.end() == [1] * RANKS
    assert all(words in world.answer(rank)["error"] for rank in range(RANKS))
    saves = tmp_path / "run" / checkpoint.FOLDER
    assert checkpoint.found(saves) == []
    assert (next(saves.glob("*.partial")) / "__1_0.distcp").exists()


def train_and_note(argv: list[str]) -> list[str]:
    """Train; returns in which order this rank flushed and renamed what it saved."""
    order, fsync = list[str](), os.fsync

    def note(act: str, path: Path) -> None:
        if checkpoint.FOLDER in path.parts:
            order.append(f"{act} {re.sub('[0-9]+', 'N', path.name)}")

    def flush(number: int) -> None:
        note("flush", Path(f"/proc/self/fd/{number}").readlink())
        fsync(number)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename":
            note("rename", Path(arguments[0]))

    common.replace(os, "fsync", flush)
    sys.addaudithook(hear)
    common.train_short_epochs(argv)
    return order


def test_power_cut_leaves_whole_folders(tmp_path: Path) -> None:
    """A folder has its name when all in it is on the disk, and its manifest when the name is."""
    argv = [f"run.folder={tmp_path}", *SETTINGS, "train.max_steps=1"]
    main, other = processes.run(2, train_and_note, argv)
    assert other == ["flush __N_N.distcp"]
    assert main[0] == other[0]
    assert [act for act in main[1:] if ".metadata" not in act] == [
        *("flush rest.pt.partial", "rename rest.pt.partial"),
        *("flush step_N.pt.N.partial", "rename step_N.pt.N.partial", "flush checkpoints"),
        *("flush step_N.json.partial", "rename step_N.json.partial", "flush checkpoints"),
    ]


def test_list_of_shares_runs_no_code(trained: Path, tmp_path: Path) -> None:
    """Whoever wrote the folder: only plain values are read from it."""

    class Code:
        def __init__(self, *call: Any) -> None:
            self.call = call

        def __reduce__(self) -> Any:
            return self.call

    shutil.copytree(trained / "run" / checkpoint.FOLDER / NEWEST, path := tmp_path / NEWEST)
    reach = Code(getattr, (TensorProperties, "__init__"))
    for code in (Code(Path.touch, (tmp_path / "run",)), reach):
        (path / folders.CONTENTS).write_bytes(pickle.dumps(code))
        with pytest.raises(config.ConfigError, match=r"which is not read|not subscriptable"):
            folders.whole(path)
    assert not (tmp_path / "run").exists()


get_state: Any = TensorProperties.__getstate__
WRITERS: dict[str, tuple[type, str, Any]] = {
    # Torch 2.15 says one thing more of each tensor.
    "a newer torch": (TensorProperties, "__getstate__", lambda p: (*get_state(p)[:5], (1,))),
    # Members of enumerations are written in another way before 3.11.4. Debian 12 has 3.11.2.
    "an older Python": (Enum, "__reduce_ex__", lambda m, _: (getattr, (type(m), m.name))),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_list_of_other_versions_is_read(
    writer: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes on in another environment keeps the run."""
    shutil.copytree(trained / "run" / checkpoint.FOLDER / NEWEST, path := tmp_path / NEWEST)
    expected = folders.whole(path)["model"]
    listed = pickle.loads((path / folders.CONTENTS).read_bytes())
    monkeypatch.setattr(*WRITERS[writer])
    (path / folders.CONTENTS).write_bytes(pickle.dumps(listed))
    monkeypatch.undo()
    assert_close(folders.whole(path)["model"], expected, rtol=0, atol=0)
