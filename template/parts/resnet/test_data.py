"""Images from folders of files, and augmentation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import config
import data
import model
from support import common

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config for colour images, with what is prepared in `folder`."""
    return replace(
        common.settings(folder).data, folder=str(folder), channels=3, image_size=16, **changes
    )


def draw(folder: Path, count: int) -> None:
    """`count` images of each colour, in a folder per colour, in several formats and sizes."""
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            ending = ("png", "jpg", "bmp")[number % 3]
            image = Image.new("RGB", (20 + number, 30), colour)
            image.save(folder / name / f"{number}.{ending}")
        (folder / name / "notes.txt").write_text("not an image")


def colours(split: data.Images | data.ImageFiles) -> list[int]:
    """What is seen on each image: the brightest channel, as the number of the class."""
    batch = split.__getitems__(list(range(len(split))))
    assert batch.inputs.shape[1:] == (3, 16, 16)
    assert batch.inputs.dtype == torch.uint8
    seen = 2 - batch.inputs.float().mean((2, 3)).argmax(1)  # red is channel 0 and class 2
    assert torch.equal(seen, batch.targets)
    return seen.tolist()


def test_folder_is_divided(tmp_path: Path) -> None:
    """Each image is in one split, with the class of its folder."""
    draw(tmp_path / "images", 6)
    cfg = settings(tmp_path, source=str(tmp_path / "images"), validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert splits.shape == data.Shape(3, 3, ["blue", "green", "red"])
    train, val = colours(splits.train), colours(splits.val)
    assert len(val) == 4
    assert sorted(train + val) == [0] * 6 + [1] * 6 + [2] * 6


def test_images_that_came_later_are_seen(tmp_path: Path) -> None:
    """The list that was prepared before does not count any more."""
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    draw(tmp_path / "images", 2)
    data.prepare(cfg)
    Image.new("RGB", (20, 20), COLOURS["red"]).save(tmp_path / "images" / "red" / "late.png")
    data.prepare(cfg)
    train, val, _ = data.open_splits(cfg)
    assert len(train) + len(val) == 7


def test_folders_of_splits(tmp_path: Path) -> None:
    """train/ and val/ are taken as they are."""
    draw(tmp_path / "images" / "train", 3)
    draw(tmp_path / "images" / "val", 1)
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert sorted(colours(splits.train)) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sorted(colours(splits.val)) == [0, 1, 2]


def test_damaged_file_is_named(tmp_path: Path) -> None:
    """An image that cannot be decoded ends the run with its path."""
    draw(tmp_path / "images", 2)
    for path in (tmp_path / "images").rglob("*.png"):
        path.write_bytes(b"damaged")
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    train = data.open_splits(cfg).train
    with pytest.raises(config.ConfigError, match=r"0\.png cannot be read"):
        train.__getitems__(list(range(len(train))))


def test_folder_without_classes(tmp_path: Path) -> None:
    """A folder that holds no folders of images is refused with what is expected."""
    cfg = settings(tmp_path, source=str(tmp_path))
    with pytest.raises(config.ConfigError, match="one folder of images per class"):
        data.prepare(cfg)


def test_augmentation(tmp_path: Path) -> None:
    """Random for training images, repeated by the same seed, absent from validation."""
    augmentation = ("data.rotate=10.0", "data.zoom=0.1", "data.shift=0.1")
    splits = data.open_splits(common.settings(tmp_path, *augmentation).data)
    for split, changes in ((splits.train, True), (splits.val, False)):
        torch.manual_seed(1)
        one, other = split.__getitems__([3, 4]), split.__getitems__([3, 4])
        torch.manual_seed(1)
        again = split.__getitems__([3, 4])
        assert torch.equal(one.inputs, again.inputs)
        assert torch.equal(one.inputs, other.inputs) != changes


def test_augmentation_by_nothing_changes_nothing() -> None:
    """Angle, zoom and shift of 0 give the images back; mirroring turns about half of them."""
    images = torch.randint(256, (64, 1, 8, 8), dtype=torch.uint8)
    torch.testing.assert_close(data.Augment(0.0, 0.0, 0.0, flip=False)(images), images)
    mirrored = data.Augment(0.0, 0.0, 0.0, flip=True)(images)
    turned = (mirrored == images.flip(3)).all(3).all(2).sum().item()
    kept = (mirrored == images).all(3).all(2).sum().item()
    assert turned + kept == 64
    assert min(turned, kept) > 16


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_become_numbers_in_the_model(channels: int, tmp_path: Path) -> None:
    """Black is -1 and white 1, and the channels of a pixel lie side by side."""
    network = model.build(common.settings(tmp_path).model, data.Shape(channels, classes=2))
    seen: list[torch.Tensor] = []
    first = next(part for part in network.modules() if isinstance(part, torch.nn.Conv2d))
    first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(torch.tensor([0, 255], dtype=torch.uint8).repeat(2, channels, 4, 4)).sum().backward()
    gradients = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    other = [n for n, p in network.named_parameters() if gradients[n].stride() != p.stride()]
    assert not other, "gradients that DDP copies"
    assert seen[0].unique().tolist() == [-1.0, 1.0]
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
