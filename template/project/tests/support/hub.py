"""A stand-in for Hugging Face's hub, which tests cannot reach."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

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
