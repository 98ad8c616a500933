"""Images in one folder per class, decoded when they are needed, in the size of the network."""

import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config
import images

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of an image that does not count: padding
FEW = 10  # up to so many classes are named to the user
FILES, ABOUT, PICTURES = "files.pt", "about.json", "images"  # what is prepared
WEIGHTS = ["*.json", "*.safetensors"]  # what is fetched of a pretrained network
PROCESSOR = "preprocessor_config.json"  # says how the network saw images in its training


class Batch(NamedTuple):
    inputs: Tensor  # [B, 3, size, size] uint8: red, green and blue, black is 0 and white 255
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    size: int  # width and height of an image
    mean: list[float]  # of red, green and blue, from 0 to 255: what becomes 0 in the network
    deviation: list[float]  # and what becomes 1
    weights: str  # folder of the pretrained network; empty: from scratch
    labels: list[str] = field(repr=False)  # of the classes

    def __str__(self) -> str:
        named = ": " + ", ".join(self.labels) if len(self.labels) <= FEW else ""
        return f"{len(self.labels):,} classes{named}; {self.size} x {self.size} pixels"


class Images(Dataset[Batch]):
    """Images on disk, decoded at each use: with many of them, let DataLoader workers do it."""

    def __init__(
        self, root: Path, files: images.Files, size: int, augment: images.Augment | None = None
    ) -> None:
        self.root, self.files, self.size, self.augment = root, files, size, augment

    def __len__(self) -> int:
        return len(self.files.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        paths = [self.root / self.files.path(index) for index in indices]
        inputs = torch.stack([images.read(path, self.size, self.augment) for path in paths])
        targets = self.files.targets[indices]
        return Batch(self.augment(inputs) if self.augment else inputs, targets)


class Splits(NamedTuple):
    train: Images
    val: Images
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Fetch the pretrained network, look at every image, and list all, once per node."""
    target = prepared_path(cfg)
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    try:
        _prepare(cfg, partial)
    except config.ConfigError:
        shutil.rmtree(partial)
        raise
    partial.replace(target)  # the folder appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Map the list of files into memory. Raises ConfigError where the network is gone."""
    folder = prepared_path(cfg)
    shape = Shape(**json.loads((folder / ABOUT).read_text(encoding="utf-8")))
    if shape.weights and not Path(shape.weights).is_dir():
        raise config.ConfigError(
            f"the pretrained network is gone from {shape.weights}: fetch it again, with "
            "`python train.py --prepare-only --force`"
        )
    listed = torch.load(folder / FILES, weights_only=True, mmap=True)
    train, val = (images.Files(*listed[name]) for name in ("train", "val"))
    augment = images.Augment(cfg.crop, cfg.flip, cfg.jitter)
    root = _root(cfg, folder)
    return Splits(Images(root, train, shape.size, augment), Images(root, val, shape.size), shape)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the list; other files in the folders, or other settings, have another place."""
    places = [] if cfg.source == "digits" else images.folders(Path(cfg.source))
    network = sorted(Path(cfg.pretrained).glob("*.*")) if cfg.pretrained else []
    versions = [(str(path), path.stat().st_mtime_ns) for path in [*places, *network]]
    chosen = (cfg.source, cfg.validation, cfg.split_seed, cfg.image_size, cfg.pretrained)
    digest = hashlib.sha256(repr((chosen, versions)).encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _prepare(cfg: config.Data, folder: Path) -> None:
    weights = fetch(cfg.pretrained) if cfg.pretrained else ""
    if cfg.source == "digits":
        _draw_digits(folder / PICTURES)
    root = _root(cfg, folder)
    found = images.find(root, cfg.validation, cfg.split_seed)
    size, colours = read_processor(Path(weights)) if weights else (cfg.image_size, None)
    measured = images.measure(root, found, size)  # in any case: all images are looked at
    about = {"size": size, "weights": weights, "labels": found.classes}
    about |= (colours or measured)._asdict()
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    splits = {"train": images.pack(found.train), "val": images.pack(found.val)}
    torch.save({name: tuple(files) for name, files in splits.items()}, folder / FILES)


def _root(cfg: config.Data, prepared: Path) -> Path:
    """The folder of the images."""
    return prepared / PICTURES if cfg.source == "digits" else Path(cfg.source)


def _draw_digits(folder: Path) -> None:
    """The digits of scikit-learn as files, as a user has them: a folder for each class."""
    from PIL import Image
    from sklearn import datasets  # only needed here, where the data is prepared

    pixels, labels = datasets.load_digits(return_X_y=True)
    grey = (pixels * (255 / 16)).round().astype("uint8").reshape(-1, 8, 8)  # from 0..16
    for number, (image, label) in enumerate(zip(grey, labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / str(label) / f"{number:04}.png")


# --- Pretrained networks --------------------------------------------------------------------------


def fetch(name: str) -> str:
    """The folder of a pretrained network: as it is named, or this node's copy from the hub."""
    if Path(name).is_dir():
        return str(Path(name).absolute())
    import huggingface_hub

    try:
        return str(huggingface_hub.snapshot_download(name, allow_patterns=WEIGHTS))
    except (OSError, ValueError) as error:
        first, *_ = str(error).splitlines()
        raise config.ConfigError(
            f"data.pretrained = {name!r} is no folder, and cannot be fetched by name: {first}"
        ) from error


def read_processor(weights: Path) -> tuple[int, images.Colours]:
    """The size of images that a network was trained with, and its mean and deviation.

    The file is read as it is: transformers would want torchvision for it. Raises ConfigError where
    the file is missing or says less.
    """
    path = weights / PROCESSOR
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        size = _square(about["crop_size"] if about.get("do_center_crop") else about["size"])
        scaled = [[255 * value for value in about[key]] for key in ("image_mean", "image_std")]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise config.ConfigError(
            f"{path} does not say how the network sees images: {error!r}; save the network's image "
            "processor there, `AutoImageProcessor.from_pretrained(...).save_pretrained(...)`"
        ) from error
    return size, images.Colours(*scaled)


def _square(size: Any) -> int:
    """Width and height, from any of the ways in which files have them."""
    if isinstance(size, int):
        return size
    if size.get("height") != size.get("width"):
        raise ValueError(f"images of {size}: only squares are supported")
    return int(size["height"] if "height" in size else size["shortest_edge"])
