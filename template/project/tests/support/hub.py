"""A stand-in for Hugging Face's hub, which tests cannot reach."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import huggingface_hub
import pytest

import config
import data
from engine import loading

REVISION = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """One network, and the cache of the node on which the program believes to be."""

    origin: Path  # the network's files
    cache: Path
    fetched: list[Path] = field(default_factory=list)  # the caches that were filled

    def snapshot_download(
        self,
        name: str,
        revision: str = REVISION,
        cache_dir: str | None = None,
        local_files_only: bool = False,
        **_: Any,
    ) -> str:
        """As the function of that name: a folder, filled unless only what is there is wanted."""
        root = Path(cache_dir or self.cache)
        folder = root / f"models--{name.replace('/', '--')}" / "snapshots" / revision
        if folder.is_dir():
            return str(folder)
        if local_files_only or revision != REVISION:
            raise OSError("no such snapshot")
        shutil.copytree(self.origin, folder)
        self.fetched.append(root)
        return str(folder)


def stand_in(patch: pytest.MonkeyPatch, origin: Path, cache: Path) -> Hub:
    """A hub that has one network under any name, in place of the true one."""
    hub = Hub(origin, cache)
    patch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub


def of_another_node(patch: pytest.MonkeyPatch, origin: Path, cfg: config.Data) -> data.Shape:
    """What a node opens that shares the data, and not the cache, with the node that prepared them.

    Each node fetches the network once; no rank fetches, and none waits for the lock of the data.
    """
    one, other = (Path(cfg.folder) / name for name in ("one", "other"))
    node = stand_in(patch, origin, one)
    loading.prepare(cfg)
    shape = data.open_splits(cfg).shape
    shutil.rmtree(node.cache)
    node.cache = other
    with pytest.raises(config.ConfigError, match="the pretrained network is gone"):
        data.open_splits(cfg)
    with filelock.FileLock(Path(cfg.folder) / ".lock"):
        loading.prepare(cfg)
        loading.prepare(cfg)
    found = data.open_splits(cfg).shape
    assert node.fetched == [one, other], "not once on each node"
    assert Path(found.weights).is_relative_to(other)
    assert found == shape, "predictions would be refused on another node"
    return found
