"""Images from folders of files, and augmentation."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import config
import data
import images
import model
from support import common

FAULTY = "/proc/self/mem"  # its first bytes cannot be read
COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config for colour images, with what is prepared in `folder`."""
    return replace(
        common.settings(folder).data, folder=str(folder), channels=3, image_size=16, **changes
    )


@pytest.mark.parametrize("name", ["a.jpg", "DSC_1.JPG", "b/c.Png"])
def test_images_are_known_by_their_endings(name: str) -> None:
    """Cameras write them in capitals."""
    assert images.is_image(name)
    assert not images.is_image(f"{name}.txt")


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
    """What is seen, in any order of images: the brightest channel, as the number of the class."""
    batch = split.__getitems__(torch.randperm(len(split)).tolist())
    assert batch.inputs.shape[1:] == (3, 16, 16)
    assert batch.inputs.dtype == torch.uint8
    seen = 2 - batch.inputs.float().mean((2, 3)).argmax(1)  # red is channel 0 and class 2
    assert torch.equal(seen, batch.targets)
    return seen.tolist()


def test_prepared_data_appear_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their final name other ranks find all of them, or nothing yet."""
    draw(tmp_path / "images", 6)
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    for source in (str(tmp_path / "images"), "digits"):
        cfg = settings(tmp_path, source=source, validation=0.25)
        data.prepare(cfg)
        assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


def test_folder_is_divided(tmp_path: Path) -> None:
    """Each image is in one split, with the class of its folder."""
    draw(tmp_path / "images", 6)
    cfg = settings(tmp_path, source=str(tmp_path / "images"), validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert replace(splits.shape, content="") == data.Shape(3, 3, ["blue", "green", "red"])
    train, val = colours(splits.train), colours(splits.val)
    assert len(val) == 4
    assert sorted(train + val) == [0] * 6 + [1] * 6 + [2] * 6


def test_bundled_images_are_divided(tmp_path: Path) -> None:
    """Each of the 1,797 images is in one split, those of training show all ten digits."""
    cfg = common.settings(tmp_path, f"data.folder={tmp_path}").data
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert len(train) + len(val) == 1797, "some are in both, or in none"
    assert len(train.__getitems__([*range(len(train))]).targets.unique()) == shape.classes == 10


def test_images_that_came_later_are_seen(tmp_path: Path) -> None:
    """The list that was prepared before does not count any more."""
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    draw(tmp_path / "images", 2)
    data.prepare(cfg)
    Image.new("RGB", (20, 20), COLOURS["red"]).save(tmp_path / "images" / "red" / "late.png")
    data.prepare(cfg)
    train, val, _ = data.open_splits(cfg)
    assert len(train) + len(val) == 7


def turned(folder: Path, followlinks: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk of another disk, which gives names in another order."""
    for place, inside, names in walk(folder, followlinks=followlinks):
        inside.reverse()
        yield place, inside, names[::-1]


walk = os.walk


def test_preparation_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node prepares for itself: the same splits in the same order, by their own settings."""
    draw(tmp_path / "images", 9)
    cfg = settings(tmp_path, source=str(tmp_path / "images"), validation=0.25)
    data.prepare(cfg)
    first = images.load(data.prepared_path(cfg) / data.FILES)
    shutil.rmtree(data.prepared_path(cfg))
    monkeypatch.setattr(os, "walk", turned)
    data.prepare(cfg)
    again = images.load(data.prepared_path(cfg) / data.FILES)
    for before, after in ((first.train, again.train), (first.val, again.val)):
        for one, other in zip(before, after, strict=True):
            assert one.equal(other), "other splits on another node"
    changes: list[dict[str, Any]] = [{"validation": 0.3}, {"split_seed": 1}, {"label": "other"}]
    for change in changes:
        assert data.prepared_path(replace(cfg, **change)) != data.prepared_path(cfg)
    paths = [data.prepared_path(cfg)]
    monkeypatch.setattr(data, "version", lambda _: "0")
    paths.append(data.prepared_path(cfg))
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"edited")
    paths.append(data.prepared_path(cfg))
    assert len({*paths}) == 3, "an older program's data"


def test_images_in_nested_folders(tmp_path: Path) -> None:
    """They belong to the class above, and later ones are seen, too."""
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    draw(tmp_path / "images", 2)
    for part in ("train", "val"):
        draw(tmp_path / "divided" / part, 1)
    divided = replace(cfg, source=str(tmp_path / "divided"))
    for folder, chosen in (("images/red/a/b", cfg), ("divided/val/red/a", divided)):
        (tmp_path / folder).mkdir(parents=True)
        sizes = []
        for name in ("0.png", "1.png"):
            Image.new("RGB", (20, 20), COLOURS["red"]).save(tmp_path / folder / name)
            data.prepare(chosen)
            train, val, _ = data.open_splits(chosen)
            sizes.append(len(train) + len(val))
        assert sizes == [7, 8]


def test_files_of_other_programs_are_no_images(tmp_path: Path) -> None:
    """Neither hidden folders nor hidden files, at any depth."""
    draw(tmp_path / "images", 2)
    for name in (".git", ".ipynb_checkpoints", "__MACOSX", "__pycache__"):
        for folder in (tmp_path / "images" / name, tmp_path / "images" / "red" / name):
            folder.mkdir()
            Image.new("RGB", (20, 20)).save(folder / "0.png")
    (tmp_path / "images" / "red" / "._0.jpg").write_bytes(b"resources")
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert shape.labels == ["blue", "green", "red"]
    assert len(train) + len(val) == 6
    assert str(shape).startswith("3 classes: blue, green, red")


def test_links_are_followed(tmp_path: Path) -> None:
    """A class or a part of one that lies elsewhere, but no folder twice."""
    draw(tmp_path / "images", 2)
    draw(tmp_path / "elsewhere", 3)
    (tmp_path / "images" / "yellow").symlink_to(tmp_path / "elsewhere" / "green")
    (tmp_path / "images" / "red" / "more").symlink_to(tmp_path / "elsewhere" / "red")
    (tmp_path / "images" / "red" / "again").symlink_to(tmp_path / "images" / "red")
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert shape.labels == ["blue", "green", "red", "yellow"]
    assert len(train) + len(val) == 6 + 3 + 3


def test_pipe_is_refused(tmp_path: Path) -> None:
    """Whoever opens one waits until another program writes into it."""
    draw(tmp_path / "images", 2)
    os.mkfifo(tmp_path / "images/red/2.png")
    with pytest.raises(config.ConfigError, match=r"red/2\.png is a pipe or a device"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "images")))


@pytest.mark.parametrize("val", ["val", "valid", "validation", "dev"])
def test_folders_of_splits(val: str, tmp_path: Path) -> None:
    """train/ and val/ are taken as they are."""
    draw(tmp_path / "images" / "train", 3)
    draw(tmp_path / "images" / val, 1)
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert sorted(colours(splits.train)) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sorted(colours(splits.val)) == [0, 1, 2]
    assert "no image held out" not in str(splits.shape)


# {% include "parts/prepare/test_held_out.py" %}


@pytest.mark.parametrize(
    "folders", [["train", "test"], ["train"], ["Train", "Val"], ["test", "val"], ["training"]]
)
def test_names_of_splits_are_no_classes(folders: list[str], tmp_path: Path) -> None:
    """They are refused, with what to do."""
    for name in (*folders, "day", "night"):
        draw(tmp_path / name, 1)
    cfg = settings(tmp_path, source=str(tmp_path))
    with pytest.raises(config.ConfigError, match="have the names of splits: rename") as error:
        data.prepare(cfg)
    assert str(sorted(folders)) in str(error.value)


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("train/none", "none holds no images: remove the folder"),
        ("val/none", "none is no class: .*train has none such"),
        ("valid/red", r"several folders for validation: \['val', 'valid'\]"),
    ],
)
def test_folders_that_do_not_fit_are_named(folder: str, reason: str, tmp_path: Path) -> None:
    """An empty class, a class of one split alone, two folders for one split."""
    for name in ("train", "val"):
        draw(tmp_path / "images" / name, 1)
    (tmp_path / "images" / folder).mkdir(parents=True)
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    with pytest.raises(config.ConfigError, match=reason):
        data.prepare(cfg)


def seen(path: Path, channels: int) -> list[list[int]]:
    """The pixels of an image in its upper left and lower right corner, as the model gets them."""
    cfg = replace(settings(path.parent), channels=channels)
    packed = images.pack([images.Place(path.name, 0), images.Place(path.name, 0)])
    image = data.ImageFiles(path.parent, packed, cfg).__getitems__([1]).inputs[0]
    return [image[:, 0, 0].tolist(), image[:, -1, -1].tolist()]


def test_images_are_read_at_each_use(tmp_path: Path) -> None:
    """Images that stay would fill the memory of each rank and worker, epoch after epoch."""
    packed = images.pack([images.Place("0.png", 0)])
    split = data.ImageFiles(tmp_path, packed, replace(settings(tmp_path), image_size=16))
    for shade in (9, 90):
        image = Image.new("RGB", (48, 16), (255, 255, 255))
        image.paste((shade, shade, shade), (12, 0, 36, 16))
        image.save(tmp_path / "0.png")
        found = split.__getitems__([0]).inputs.unique().tolist()
        assert 255 not in found, "the image is stretched, not cut"
        assert found == [shade], "an image that was read once stays in memory"


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_16_bits(channels: int, tmp_path: Path) -> None:
    """Their range is that of 8 bits; other numbers have no known range."""
    for name in ("0.png", "0.tif", "0.ppm"):
        values = Image.new("I", (16, 16), 100 * 256 + 3)
        values.putpixel((0, 0), 65535)
        values.convert("I;16").save(tmp_path / name)
        assert seen(tmp_path / name, channels) == [[255] * channels, [100] * channels]
    for mode in ("I", "F"):
        for colour in ("red", "blue"):
            (tmp_path / mode / colour).mkdir(parents=True)
            for name in ("0.tif", "1.tif"):
                Image.new(mode, (16, 16), 1000).save(tmp_path / mode / colour / name)
        cfg = settings(tmp_path, source=str(tmp_path / mode))
        with pytest.raises(config.ConfigError, match=rf"[01]\.tif cannot be .* mode '{mode}'"):
            data.prepare(cfg)


def test_fault_of_the_disk_is_no_damaged_image(tmp_path: Path) -> None:
    """Such an error is raised as an error, after which launchers start the run again."""
    (tmp_path / "0.png").symlink_to(FAULTY)
    with pytest.raises(OSError, match="Input/output error"):
        images.decode(tmp_path, images.Place("0.png", 0), "RGB", 16)


def test_too_few_images_to_hold_any_out(tmp_path: Path) -> None:
    """One of each class is for training."""
    for name in ("day", "night"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (16, 16)).save(tmp_path / "images" / name / "0.png")
    with pytest.raises(config.ConfigError, match="2 classes are too few images to hold any out"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "images")))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_images_are_on_white(mode: str, tmp_path: Path) -> None:
    """Whatever colour lies below what nobody sees."""
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 255))
    image.putpixel((0, 0), (0, 0, 0, 0))
    image = image.quantize(2) if mode == "P" else image.convert(mode)
    image.save(tmp_path / "0.png")
    assert seen(tmp_path / "0.png", 3) == [[255] * 3, [0] * 3]


def test_turned_images_are_upright(tmp_path: Path) -> None:
    """Cameras only note how they were held."""
    image = Image.new("RGB", (16, 16), (0, 0, 0))
    image.putpixel((0, 0), (255, 255, 255))
    image.getexif()[0x0112] = 3  # upside down
    image.save(tmp_path / "0.png", exif=image.getexif())
    assert seen(tmp_path / "0.png", 3) == [[0] * 3, [255] * 3]


def test_damaged_file_is_named(tmp_path: Path) -> None:
    """What is no image, and what ends too early, before the first step; and later, too."""
    draw(tmp_path / "images", 2)
    damaged = tmp_path / "images" / "red" / "0.png"
    whole = damaged.read_bytes()
    cfg = settings(tmp_path, source=str(tmp_path / "images"))
    for content in (b"damaged", whole[:-30]):
        damaged.write_bytes(content)
        with pytest.raises(config.ConfigError, match=r"red/0\.png cannot be read"):
            data.prepare(cfg)
        assert not [*tmp_path.glob("*.partial")]
    damaged.write_bytes(whole)
    data.prepare(cfg)
    for path in (tmp_path / "images").rglob("*.png"):
        path.write_bytes(whole[:-30])
    train = data.open_splits(cfg).train
    with pytest.raises(config.ConfigError, match=r"0\.png cannot be read"):
        train.__getitems__(list(range(len(train))))


def test_folder_without_classes(tmp_path: Path) -> None:
    """A folder that holds no folders of images is refused with what is expected."""
    cfg = settings(tmp_path, source=str(tmp_path))
    with pytest.raises(config.ConfigError, match="one folder of images per class"):
        data.prepare(cfg)


def test_missing_folder(tmp_path: Path) -> None:
    """It is not taken for one without classes."""
    cfg = settings(tmp_path, source=str(tmp_path / "absent"))
    with pytest.raises(config.ConfigError, match="absent': there is no such folder"):
        data.prepare(cfg)


def test_augmentation(tmp_path: Path) -> None:
    """Random for training images, repeated by the same seed, absent from validation."""
    for kind in "ab":
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(9):
            Image.linear_gradient("L").save(tmp_path / "images" / kind / f"{number}.png")
    for source in ("digits", str(tmp_path / "images")):
        cfg = settings(tmp_path, source=source, validation=0.5)
        cfg = replace(cfg, rotate=10.0, zoom=0.1, shift=0.1)
        data.prepare(cfg)
        splits = data.open_splits(cfg)
        for split, changes in ((splits.train, True), (splits.val, False)):
            torch.manual_seed(1)
            one, other = split.__getitems__([3, 4]), split.__getitems__([3, 4])
            torch.manual_seed(1)
            again = split.__getitems__([3, 4])
            assert torch.equal(one.inputs, again.inputs)
            assert torch.equal(one.inputs, other.inputs) != changes, "drawn once, or for validation"


@pytest.mark.parametrize("change", range(3))
def test_each_image_has_changes_of_its_own(change: int) -> None:
    """Else a larger micro-batch would see fewer of them: angle, zoom and shift."""
    amounts = [(30.0, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 0.4)][change]
    given = torch.randint(256, (1, 1, 9, 9), dtype=torch.uint8).repeat(6, 1, 1, 1)
    changed, later = (data.Augment(*amounts, flip=False)(given) for _ in range(2))
    assert len({str(image.tolist()) for image in changed}) > 3, "all are changed alike"
    assert not changed.equal(later), "each batch is changed alike"


def test_augmentation_by_nothing_changes_nothing() -> None:
    """Angle, zoom and shift of 0 give the images back; mirroring turns about half of them."""
    given = torch.randint(256, (64, 1, 8, 8), dtype=torch.uint8)
    torch.testing.assert_close(data.Augment(0.0, 0.0, 0.0, flip=False)(given), given)
    mirrored = data.Augment(0.0, 0.0, 0.0, flip=True)(given)
    turned = (mirrored == given.flip(3)).all(3).all(2).sum().item()
    kept = (mirrored == given).all(3).all(2).sum().item()
    assert turned + kept == 64
    assert min(turned, kept) > 16


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_become_numbers_in_the_model(channels: int, tmp_path: Path) -> None:
    """Black is -1 and white 1, and the channels of a pixel lie side by side."""
    network = model.build(common.settings(tmp_path).model, data.Shape(channels, 2, ["a", "b"]))
    seen: list[torch.Tensor] = []
    first = next(part for part in network.modules() if isinstance(part, torch.nn.Conv2d))
    first.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(torch.tensor([0, 255], dtype=torch.uint8).repeat(2, channels, 4, 4)).sum().backward()
    # {% if sharding != 'zero1' %}
    pairs = [(p, p.grad) for p in network.parameters() if p.grad is not None]
    assert all(p.stride() == grad.stride() for p, grad in pairs), "{{ wrapper | upper }} copies gradients"
    # {% endif %}
    assert seen[0].unique().tolist() == [-1.0, 1.0]
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


# {% include "parts/prepare/test_notes.py" %}
