"""Images in one folder per class, decoded when they are needed, in the size of the network."""

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

import config
import images
import shards
from engine import hub

UNIT = "samples"  # of the throughput
IGNORE = -100  # the target of an image that does not count: padding
FILES, ABOUT, PICTURES = "files.pt", "about.json", "images"  # what is prepared
PROGRAM = ("data.py", "images.py", "shards.py")  # what prepares
WEIGHTS = ["*.json", "*.safetensors"]  # what is fetched of a pretrained network
NARROWEST = 3 / 4  # width by height of a random part; the widest is the other way round
BICUBIC = 3  # Pillow's number of it
PROCESSOR = "preprocessor_config.json"  # says how the network saw images in its training


class Batch(NamedTuple):
    inputs: Tensor  # [B, 3, size, size] uint8: red, green and blue, black is 0 and white 255
    targets: Tensor  # [B] int64; of mixtures [B, classes] float32, the share of each class


@dataclass(frozen=True)
class Shape:
    size: int  # width and height of an image
    mean: list[float]  # of red, green and blue, from 0 to 255: what becomes 0 in the network
    deviation: list[float]  # and what becomes 1
    # Folder of the pretrained network, on this node; empty: from scratch.
    weights: str = field(compare=False)
    labels: list[str] = field(repr=False)  # of the classes
    doubts: str = field(default="", repr=False, compare=False)  # words about the images
    content: str = ""  # digits that follow from the images of both splits
    network: str = ""  # the name of a pretrained network

    @property
    def names(self) -> list[str]:
        """Of classes, images and network: with others, weights and validation mean others."""
        return [*self.labels, f"values {self.content}", self.network or "no pretrained network"]

    def __str__(self) -> str:
        named = ": " + ", ".join(self.labels) if len(self.labels) <= images.FEW else ""
        return f"{len(self.labels):,} classes{named}; {self.size} x {self.size} pixels{self.doubts}"


@dataclass(frozen=True)
class Augment:
    """Random parts, mirrorings and colours, from torch's global generator.

    The loader seeds that generator for every batch by its place.
    """

    crop: float
    flip: bool
    jitter: float

    def box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Left, upper, right and lower edge of a part of random area, shape and place."""
        area, form, x, y = torch.rand(4).tolist()
        pixels = width * height * (1 - self.crop * area)
        down = min(height, math.sqrt(pixels * NARROWEST ** (2 * form - 1)))
        across = min(width, pixels / down)
        down = min(height, pixels / across)  # which a rounding takes beyond the height
        left, upper = x * (width - across), y * (height - down)
        return left, upper, min(width, left + across), min(height, upper + down)

    def part(self, root: Path, place: images.Place, size: int) -> Tensor:
        """A random part of an image, as [3, size, size] uint8."""
        wanted = math.ceil(size / math.sqrt(1 - self.crop))
        image = images.decode(root, place, "RGB", wanted)
        return images.pixels(image.resize((size, size), BICUBIC, self.box(*image.size)))

    def __call__(self, batch: Tensor) -> Tensor:
        """Images [B, 3, height, width] uint8 -> the same, mirrored and in other colours."""
        if self.flip:
            chosen = torch.rand(len(batch), 1, 1, 1) < 0.5
            batch = torch.where(chosen, batch.flip(3), batch)
        if not self.jitter:
            return batch
        factors = 1 + self.jitter * (2 * torch.rand(3, len(batch), 1, 1, 1) - 1)
        pixels = batch * factors[0]
        for factor, dimensions in ((factors[1], (1, 2, 3)), (factors[2], (1,))):
            grey = pixels.mean(dimensions, keepdim=True)  # of the image; of each pixel
            pixels = grey + factor * (pixels - grey)
        return pixels.round().clamp(0, 255).byte()


class Images(Dataset[Batch]):
    """Images on disk, decoded at each use: with many of them, let DataLoader workers do it."""

    def __init__(
        self, root: Path, files: images.Files, size: int, augment: Augment | None = None
    ) -> None:
        self.root, self.files, self.size, self.augment = root, files, size, augment

    def __len__(self) -> int:
        return len(self.files.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        inputs = torch.stack([self._read(self.files.place(index)) for index in indices])
        targets = self.files.targets[indices]
        return Batch(self.augment(inputs) if self.augment else inputs, targets)

    def _read(self, place: images.Place) -> Tensor:
        if self.augment and self.augment.crop:
            return self.augment.part(self.root, place, self.size)
        return images.square(self.root, place, "RGB", self.size)


class Mixtures(Images):
    """Training images, laid over each other in pairs (mixup, Zhang et al., 2018).

    Pairs are of one micro-batch. Their shares come from torch's global generator, which the loader
    seeds for every batch by its place.
    """

    def __init__(self, plain: Images, strength: float, classes: int) -> None:
        super().__init__(plain.root, plain.files, plain.size, plain.augment)
        self.shares, self.classes = torch.distributions.Beta(strength, strength), classes

    def __getitems__(self, indices: list[int]) -> Batch:
        inputs, targets = super().__getitems__(indices)
        drawn = self.shares.sample((len(indices), 1))
        share = drawn.maximum(1 - drawn)  # an image of which most is seen is one of its own
        pixels = _mixed(inputs, share[..., None, None])
        return Batch(pixels.round().byte(), _mixed(F.one_hot(targets, self.classes), share))


def _mixed(samples: Tensor, share: Tensor) -> Tensor:
    """A share of each sample, and the rest of the sample before it."""
    return share * samples + (1 - share) * samples.roll(1, 0)


class Splits(NamedTuple):
    train: Images
    val: Images
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each image's target counts: a bool tensor [B]."""
    return (targets if targets.ndim == 1 else targets[:, 0]) != IGNORE


def prepare(cfg: config.Data) -> None:
    """Fetch the pretrained network, look at every image, and list all, once per node."""
    target = prepared_path(cfg)
    if target.exists():
        return
    with images.preparing(target) as folder:
        _prepare(cfg, folder)


def open_splits(cfg: config.Data) -> Splits:
    """Map the list of files into memory. Raises ConfigError where the network is gone."""
    folder = prepared_path(cfg)
    about = _about(folder)
    about["weights"] = find_network(cfg, about["weights"])
    found = images.load(folder / FILES)
    _, train, val, _, content = found
    shape = Shape(**about, doubts=images.doubts(found), content=content)
    augment = Augment(cfg.crop, cfg.flip, cfg.jitter)
    root = _root(cfg, folder)
    chosen = Images(root, train, shape.size, augment)
    chosen = Mixtures(chosen, cfg.mixup, len(shape.labels)) if cfg.mixup else chosen
    return Splits(chosen, Images(root, val, shape.size), shape)


def _about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    return found


def find_network(cfg: config.Data, folder: str, fetching: bool = False) -> str:
    """This node's copy of the network that was in `folder` where the data were prepared."""
    return hub.find(cfg.pretrained, folder, fetch, fetching)


def fetch_network(cfg: config.Data) -> None:
    """Fetch the pretrained network where this node has none, but another prepared the data."""
    find_network(cfg, _about(prepared_path(cfg))["weights"], fetching=True)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the list; other files, other settings or another program have another place."""
    source = Path(cfg.source)
    places = [] if cfg.source == "digits" else shards.files(source) or images.folders(source)
    network = sorted(Path(cfg.pretrained).glob("*.*")) if cfg.pretrained else []
    versions = [(str(path), path.stat().st_mtime_ns) for path in [*places, *network]]
    split = (cfg.source, cfg.label, cfg.validation, cfg.split_seed, cfg.image_size, cfg.pretrained)
    program = [Path(__file__).with_name(name).read_bytes() for name in PROGRAM]
    key = repr((split, versions, program, version("pillow"), version("pyarrow")))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"


def _prepare(cfg: config.Data, folder: Path) -> None:
    weights = fetch(cfg.pretrained) if cfg.pretrained else ""
    hub.check_folder(weights)
    if cfg.source == "digits":
        _draw_digits(folder / PICTURES)
    if shards.files(Path(cfg.source)):
        found = shards.find(cfg, folder / PICTURES)
    else:
        found = images.find(_root(cfg, folder), cfg.validation, cfg.split_seed)
    size, colours = read_processor(Path(weights)) if weights else (cfg.image_size, None)
    notes = images.Notes(_root(cfg, folder))
    measured = measure(notes, found, size)  # in any case: all images are looked at
    about = {"size": size, "weights": weights, "labels": found.classes}
    about["network"] = hub.name_of_network(weights, PROCESSOR) if weights else ""
    about |= (colours or measured)._asdict()
    (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    images.save(found, notes, folder / FILES)


def _root(cfg: config.Data, prepared: Path) -> Path:
    """The folder of the images, or of what was unpacked of them."""
    unpacked = prepared / PICTURES
    return unpacked if unpacked.is_dir() else Path(cfg.source)


def _draw_digits(folder: Path) -> None:
    """The digits of scikit-learn as files, as a user has them: a folder for each class."""
    from PIL import Image
    from sklearn import datasets  # only needed here, where the data is prepared

    pixels, labels = datasets.load_digits(return_X_y=True)
    grey = (pixels * (255 / 16)).round().astype("uint8").reshape(-1, 8, 8)  # from 0..16
    for number, (image, label) in enumerate(zip(grey, labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / str(label) / f"{number:04}.png")


# --- Looking --------------------------------------------------------------------------------------


class Colours(NamedTuple):
    """Mean and standard deviation of red, green and blue, from 0 to 255."""

    mean: list[float]
    deviation: list[float]


def measure(notes: images.Notes, found: images.Found, size: int) -> Colours:
    """The colours of the training images, as an evaluation sees them.

    The images of both splits are decoded. Raises ConfigError with the place of a damaged one.
    """
    sums = torch.zeros(2, 3, dtype=torch.int64)
    see = partial(notes.take, partial(_sums, notes.root, size))
    for number, seen in enumerate(images.look([*found.train, *found.val], see)):
        if number < len(found.train):
            sums += seen
    mean, squares = sums.double() / (len(found.train) * size**2)
    variance = squares - mean**2
    return Colours(mean.tolist(), variance.clamp(min=1).sqrt().tolist())


def _sums(root: Path, size: int, place: images.Place) -> Tensor:
    """Sums of the pixels and of their squares [2, 3] int64, which no order of adding changes."""
    pixels = images.square(root, place, "RGB", size).long()
    return torch.stack((pixels.sum((1, 2)), pixels.square().sum((1, 2))))


# --- Pretrained networks --------------------------------------------------------------------------


def fetch(name: str, **options: Any) -> str:
    """The folder of a pretrained network: as it is named, or this node's copy from the hub.

    The options are those of `snapshot_download`.
    """
    if Path(name).is_dir():
        return str(Path(name).absolute())
    import huggingface_hub

    try:
        return str(huggingface_hub.snapshot_download(name, allow_patterns=WEIGHTS, **options))
    except (OSError, ValueError) as error:
        first, *_ = str(error).splitlines()
        raise config.ConfigError(
            f"data.pretrained = {name!r} is no folder, and cannot be fetched by name: {first}"
        ) from error


def read_processor(weights: Path) -> tuple[int, Colours]:
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
    return size, Colours(*scaled)


def _square(size: Any) -> int:
    """Width and height, from any of the ways in which files have them."""
    if isinstance(size, int):
        return size
    if size.get("height") != size.get("width"):
        raise ValueError(f"images of {size}: only squares are supported")
    return int(size["height"] if "height" in size else size["shortest_edge"])
