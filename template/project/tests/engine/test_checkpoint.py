"""A fault of a file is named, and the last good file stays."""

import os
import signal
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import config
from engine import checkpoint
from support import common, processes


def save(run: Path, step: int) -> Path:
    content = {"model": {"w": torch.full((2,), step)}, "step": step, "best_step": 0, "config": {}}
    checkpoint.write(path := checkpoint.path_of(run, step), content, world_size=2)
    return path


def test_rotation_keeps_what_was_just_written(tmp_path: Path) -> None:
    """A damaged file of a later step does not count, and leftovers of a save go."""
    save(tmp_path, 10**8 + 4).write_bytes(b"")
    (leftover := save(tmp_path, 10**8 - 1).with_suffix(".pt.partial")).touch()
    checkpoint.rotate(newest := save(tmp_path, 10**8), keep=1, best_step=0)
    assert checkpoint.newest_good(tmp_path) == str(newest) and not leftover.exists()
    newest.write_bytes(b"damaged")
    with pytest.raises(config.ConfigError, match="no checkpoint of"):  # it would be overwritten
        checkpoint.newest_good(tmp_path)
    for path in [*newest.parent.glob("*.json"), newest]:
        path.unlink()
    assert checkpoint.newest_good(tmp_path) == "", "a first save that never ended is nothing"


REASONS = {
    '{"format": 2}': "a newer program wrote it, in format 2",
    **dict.fromkeys(["[]", '{"format": 1'], "its manifest is damaged, or another program's"),
    '{"format": 1, "sha256": "0"}': "its content is not what was written",
}


@pytest.mark.parametrize("manifest", REASONS)
def test_reason_is_said(manifest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The words name the file and its fault, and an older file is used."""
    bad, good = save(tmp_path, 2), save(tmp_path, 1)  # copied in any order
    bad.with_suffix(".json").write_text(manifest)
    bad.with_suffix(".pt.partial").write_bytes(b"half")  # of a save that was killed: no word of it
    assert checkpoint.newest_good(tmp_path) == str(good)
    assert capsys.readouterr().out == f"passed over {bad}: {REASONS[manifest]}\n"


def heard(folder: Path, numbers: list[int]) -> list[int | bool]:
    """The signals that ask a run for a stop; then whether a minute is over, each 25 seconds."""
    found = list[int | bool]()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    common.replace(checkpoint.StopRequest, "_note", lambda _, number, frame: found.append(number))
    common.before_step(lambda _: [*map(signal.raise_signal, numbers)])
    common.train_short_epochs([*common.SMALL, f"run.folder={folder}", "train.max_steps=1"])
    common.replace(time, "monotonic", iter(range(0, 100, 25)).__next__)
    signal.signal(signal.SIGINT, ignored := signal.SIG_IGN)  # as nohup does
    minute = checkpoint.StopRequest(1.0)
    return [*found, minute(), minute(), minute(), signal.getsignal(signal.SIGINT) == ignored]


def test_schedulers_may_send_any_signal(tmp_path: Path) -> None:
    """Launch files and schedulers send one before they end a job; or `max_minutes` are over."""
    signals = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2]
    (found,) = processes.run(1, heard, tmp_path, signals)
    assert found == [*signals, False, False, True, True], "a signal asks for no stop any more"


def test_power_cut_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is on the disk before it has its name, and then the name is: so os.fsync is called."""
    synced: list[object] = []  # the file itself with its bytes, or how many names a folder has

    def note(number: int) -> None:
        file = Path(f"/proc/self/fd/{number}")
        synced.append(len([*file.glob("*[!l]")]) if file.is_dir() else file.stat()[:7])

    monkeypatch.setattr(os, "fsync", note)
    path = save(tmp_path, 1)
    assert synced == [path.stat()[:7], 1, path.with_suffix(".json").stat()[:7], 2]
    with pytest.raises(OSError, match="full"):  # which torch's writer hides
        checkpoint._save({}, Mock(write=Mock(side_effect=[64, *[OSError("full")] * 9])))
    monkeypatch.setattr(torch, "save", lambda *_: torch.zeros(2).view(3))
    with pytest.raises(RuntimeError, match="is invalid for input"):  # not of the disk
        save(tmp_path, 2)
