"""A pretrained network by its name on Hugging Face's hub: each node has a copy of its own."""

from collections.abc import Callable
from pathlib import Path

import safetensors

import config

SNAPSHOTS = "snapshots"  # the folder in which the hub's caches have revisions


def find(name: str, folder: str, fetch: Callable[..., str], fetching: bool = False) -> str:
    """The network that was in `folder` on the node which prepared the data, as it is on this node.

    Of a folder that the user named there is no other. Raises ConfigError where the network is gone,
    damaged, or cannot be fetched.
    """
    found = _find(name, folder, fetch, fetching)
    for path in sorted(Path(found).glob("*.safetensors")) if found else ():
        try:
            safetensors.safe_open(path, "pt")
        except safetensors.SafetensorError as error:
            raise config.ConfigError(
                f"{path} is damaged, cut off or no file of weights: fetch it again ({error})"
            ) from error
    return found


def _find(name: str, folder: str, fetch: Callable[..., str], fetching: bool) -> str:
    if Path(name).is_dir() or Path(folder).parent.name != SNAPSHOTS:
        if folder and not Path(folder).is_dir():
            raise gone(folder)
        return folder
    caches = (str(Path(folder).parents[2]), None)  # of that node, and of this one
    options = {"revision": Path(folder).name, "local_files_only": True}
    for cache in caches:
        try:
            return fetch(name, cache_dir=cache, **options)
        except config.ConfigError:
            continue
    if not fetching:
        raise gone(folder)
    return fetch(name, revision=Path(folder).name)


def gone(folder: str) -> config.ConfigError:
    """What to say where a network is no longer."""
    return config.ConfigError(
        f"the pretrained network is gone from {folder}: fetch it again, with "
        "`python train.py --prepare-only --force`"
    )
