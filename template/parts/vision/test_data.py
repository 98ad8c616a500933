"""Images from folders of files, augmentation, and pretrained networks."""

import io
import json
import os
import shutil
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from torch import Tensor
from torch.testing import assert_close

import config
import data
import images
import model
import optim
import steps
from engine import distributed, loading
from support import common, hub, processes, reference

FAULTY = "/proc/self/mem"  # its first bytes cannot be read
COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}
SAMPLES = 53  # of an epoch: four optimizer steps of 12, and one of 5
PLAIN = data.Augment(crop=0.0, flip=False, jitter=0.0)


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, for images in folder/images and with what is prepared in `folder`."""
    own = {"source": str(folder / "images"), "folder": str(folder), "image_size": 16}
    return replace(common.settings(folder).data, **{**own, **changes})


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


def colours(split: data.Images) -> list[int]:
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
    cfg = settings(tmp_path, validation=0.25)
    monkeypatch.setattr(os, "replace", lambda *_: None)  # as if the process ended just before
    data.prepare(cfg)
    assert not data.prepared_path(cfg).exists(), "half written, and taken for whole"


def test_folder_is_divided(tmp_path: Path) -> None:
    """Each image is in one split, with the class of its folder; classes are in their order."""
    draw(tmp_path / "images", 6)
    cfg = settings(tmp_path, validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert splits.shape.labels == ["blue", "green", "red"]
    train, val = colours(splits.train), colours(splits.val)
    assert len(val) == 4
    whole = [0] * 6 + [1] * 6 + [2] * 6
    assert sorted(train + val) == whole, "images are lost, or of other classes or colours"


def test_each_class_is_learnt(tmp_path: Path) -> None:
    """A single image of a class is not held out; what else is, is as without that class."""
    labels = [0] * 20 + [1, 2] + [3] * 20
    for seed in range(20):
        train, val = images.divide(labels, 0.25, seed)
        assert sorted(train + val) == list(range(42))
        assert {labels[i] for i in train} == {0, 1, 2, 3}
        drawn = images.hold_out(42, 0.25, seed)[1]
        assert [i for i in drawn if labels[i] in (0, 3)] == val
    splits = {tuple(images.hold_out(42, 0.25, seed)[1]) for seed in range(20)}
    assert len(splits) == 20, "data.split_seed chooses nothing"
    draw(tmp_path / "images", 4)
    name = os.fsdecode(b"caf\xe9")  # of a disk that another system wrote
    (tmp_path / "images" / name).mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "images" / name / "0.png")
    cfg = settings(tmp_path, validation=0.9)
    data.prepare(cfg)
    train_split, _, shape = data.open_splits(cfg)
    assert shape.labels == ["blue", r"caf\xe9", "green", "red"]
    seen = train_split.__getitems__(list(range(len(train_split)))).targets
    assert seen.unique().tolist() == [0, 1, 2, 3]


def test_fault_of_the_disk_is_no_damaged_image(tmp_path: Path) -> None:
    """Such an error is raised as an error, after which launchers start the run again."""
    (tmp_path / "0.png").symlink_to(FAULTY)
    with pytest.raises(OSError, match="Input/output error"):
        images.decode(tmp_path, images.Place("0.png", 0), "RGB", 16)


def test_too_few_images_to_hold_any_out(tmp_path: Path) -> None:
    """One of each class is for training."""
    draw(tmp_path / "images", 1)
    with pytest.raises(config.ConfigError, match="3 classes are too few images to hold any out"):
        data.prepare(settings(tmp_path))


def test_images_that_came_later_are_seen(tmp_path: Path) -> None:
    """The list that was prepared before does not count any more; nested folders are of a class."""
    draw(tmp_path / "images", 2)
    cfg = settings(tmp_path)
    data.prepare(cfg)
    for place, count in (("late.png", 7), ("a/b/late.png", 8)):
        path = tmp_path / "images" / "red" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), COLOURS["red"]).save(path)
        data.prepare(cfg)
        train, val, _ = data.open_splits(cfg)
        assert len(train) + len(val) == count


def test_other_settings_are_prepared_anew(tmp_path: Path) -> None:
    """What was prepared has another place by each setting that shaped it."""
    draw(tmp_path / "images", 2)
    changes: list[dict[str, Any]] = [{}, {"validation": 0.3}, {"split_seed": 1}, {"image_size": 8}]
    changes += [{"source": str(tmp_path)}, {"pretrained": "some/network"}, {"label": "other"}]
    places = {data.prepared_path(settings(tmp_path, **change)) for change in changes}
    assert len(places) == len(changes), "a setting has changed, and the old preparation is read"


# {% include "parts/prepare/test_programs.py" %}


def turned(folder: Path, followlinks: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk of another disk, which gives names in another order."""
    for place, inside, names in walk(folder, followlinks=followlinks):
        inside.reverse()
        yield place, inside, names[::-1]


walk = os.walk


def test_preparation_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node prepares for itself, and all must come to the same splits, in the same order."""
    draw(tmp_path, 9)
    (tmp_path / "red" / "nested").mkdir()
    first = images.find(tmp_path, 0.25, 0)
    monkeypatch.setattr(os, "walk", turned)
    assert images.find(tmp_path, 0.25, 0) == first, "other splits on another node"


def test_links_are_followed(tmp_path: Path) -> None:
    """A class or a part of one that lies elsewhere, but no folder twice."""
    draw(tmp_path / "images", 2)
    draw(tmp_path / "elsewhere", 3)
    (tmp_path / "images" / "yellow").symlink_to(tmp_path / "elsewhere" / "green")
    (tmp_path / "images" / "red" / "more").symlink_to(tmp_path / "elsewhere" / "red")
    (tmp_path / "images" / "red" / "again").symlink_to(tmp_path / "images" / "red")
    cfg = settings(tmp_path)
    data.prepare(cfg)
    train, val, shape = data.open_splits(cfg)
    assert shape.labels == ["blue", "green", "red", "yellow"]
    assert len(train) + len(val) == 6 + 3 + 3


def test_pipe_is_refused(tmp_path: Path) -> None:
    """Whoever opens one waits until another program writes into it."""
    draw(tmp_path / "images", 2)
    os.mkfifo(tmp_path / "images/red/2.png")
    with pytest.raises(config.ConfigError, match=r"red/2\.png is a pipe or a device"):
        data.prepare(settings(tmp_path))


@pytest.mark.parametrize("val", ["val", "valid", "validation", "dev"])
def test_folders_of_splits(val: str, tmp_path: Path) -> None:
    """train/ and val/ are taken as they are; files of other programs are no images."""
    draw(tmp_path / "images" / "train", 3)
    draw(tmp_path / "images" / val, 1)
    for name in (".git", "__MACOSX", "@eaDir"):
        (tmp_path / "images" / "train" / name).mkdir()
    (tmp_path / "images" / "train" / "red" / "._0.jpg").write_bytes(b"resources")
    cfg = settings(tmp_path)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert sorted(colours(splits.train)) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sorted(colours(splits.val)) == [0, 1, 2]
    assert "no image held out" not in str(splits.shape)


# {% include "parts/prepare/test_held_out.py" %}


def test_names_of_splits_are_no_classes(tmp_path: Path) -> None:
    """They are refused, with what to do."""
    for name in ("train", "test", "day"):
        draw(tmp_path / "images" / name, 1)
    with pytest.raises(config.ConfigError, match=r"\['test', 'train'\] .* splits: rename"):
        data.prepare(settings(tmp_path))


MISTAKES = {
    "train/none/": "none holds no images: remove the folder",
    "val/none/": "none is no class: .*train has none such",
    "valid/red/": r"several folders for validation: \['val', 'valid'\]",
    "train/loose.jpg": r"loose\.jpg is in the folder of no class",
    "loose.jpg": r"loose\.jpg is in the folder of no class",
    "train/red/damaged.jpg": r"damaged\.jpg cannot be read as an image",
    "val/red/far.tif": r"far\.tif cannot be read as an image: Python int too large",
    "val/red/empty.jpg": r"empty\.jpg cannot be read as an image: the file is empty",
    "val/red/cut.jpg": r"cut\.jpg cannot be read as an image",
}


def pixels_far_away() -> bytes:
    """A TIFF that says that its pixels begin beyond the end of every file."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "TIFF", big_tiff=True)
    content = bytearray(file.getvalue())
    entry = content.index(struct.pack("<HHQ", 273, 4, 1))  # where the first strip begins
    content[entry : entry + 20] = struct.pack("<HHQQ", 273, 16, 1, 2**64 - 1)
    return bytes(content)


@pytest.mark.parametrize("place", MISTAKES)
def test_mistakes_are_named_before_the_first_step(place: str, tmp_path: Path) -> None:
    """A folder or file where none belongs, an empty class, a damaged file; nothing is left."""
    for name in ("train", "val"):
        draw(tmp_path / "images" / name, 2)
    path = tmp_path / "images" / place
    if path.suffix:
        whole = (tmp_path / "images" / "train" / "red" / "1.jpg").read_bytes()
        contents = {"cut": whole[:-200], "far": pixels_far_away(), "empty": b""}
        path.write_bytes(contents.get(path.stem, b"damaged"))
    else:
        path.mkdir(parents=True)
    with pytest.raises(config.ConfigError, match=MISTAKES[place]):
        data.prepare(settings(tmp_path))
    assert not [*tmp_path.glob("*.partial")]


def test_folder_without_classes(tmp_path: Path) -> None:
    """A folder that is not there is not taken for one without classes."""
    with pytest.raises(config.ConfigError, match="absent': there is no such folder"):
        data.prepare(settings(tmp_path, source=str(tmp_path / "absent")))
    with pytest.raises(config.ConfigError, match="one folder of images per class"):
        data.prepare(settings(tmp_path, source=str(tmp_path)))


def seen(path: Path) -> list[list[int]]:
    """The pixels of an image in its upper left and lower right corner, as the model gets them."""
    image = images.square(path.parent, images.Place(path.name, 0), "RGB", 16)
    return [image[:, 0, 0].tolist(), image[:, -1, -1].tolist()]


def test_images_are_seen_as_people_see_them(tmp_path: Path) -> None:
    """Of 16 bits the upper 8, on white where nobody sees anything, upright."""
    image = Image.new("I", (16, 16), 100 * 256 + 3)
    image.putpixel((0, 0), 65535)
    image.convert("I;16").save(tmp_path / "0.png")
    assert seen(tmp_path / "0.png") == [[255] * 3, [100] * 3]
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 255))
    image.putpixel((0, 0), (0, 0, 0, 0))
    image.save(tmp_path / "1.png")
    assert seen(tmp_path / "1.png") == [[255] * 3, [0] * 3]
    image = Image.new("RGB", (16, 16), (0, 0, 0))
    image.putpixel((0, 0), (255, 255, 255))
    image.getexif()[0x0112] = 3  # upside down
    image.save(tmp_path / "2.png", exif=image.getexif())
    assert seen(tmp_path / "2.png") == [[0] * 3, [255] * 3]
    image = Image.new("RGB", (48, 16), (255, 255, 255))
    image.paste((0, 0, 0), (12, 0, 36, 16))
    image.save(tmp_path / "4.png")
    assert seen(tmp_path / "4.png") == [[0] * 3, [0] * 3], "the image is stretched, not cut"
    Image.new("F", (16, 16), 1000).save(tmp_path / "3.tif")
    with pytest.raises(config.ConfigError, match=r"3\.tif cannot be .* mode 'F'"):
        seen(tmp_path / "3.tif")


def test_images_are_read_at_each_use(tmp_path: Path) -> None:
    """Images that stay would fill the memory of each rank and worker, epoch after epoch."""
    split = data.Images(tmp_path, images.pack([images.Place("0.png", 0)]), 16)
    for shade in (9, 90):
        Image.new("RGB", (16, 16), (shade, shade, shade)).save(tmp_path / "0.png")
        found = split.__getitems__([0]).inputs.unique().tolist()
        assert found == [shade], "an image that was read once stays in memory"


def test_colours_are_those_of_the_training_images(tmp_path: Path) -> None:
    """Mean and deviation, and in the model numbers around 0 with a deviation of 1."""
    draw(tmp_path / "images" / "train", 2)
    draw(tmp_path / "images" / "val", 1)
    Image.new("RGB", (9, 9), (255, 255, 255)).save(tmp_path / "images" / "val" / "red" / "9.png")
    cfg = settings(tmp_path)
    data.prepare(cfg)
    train, _, shape = data.open_splits(cfg)
    pixels = train.__getitems__(list(range(len(train)))).inputs.double()
    assert_close(torch.tensor(shape.mean).double(), pixels.mean((0, 2, 3)), atol=1e-4, rtol=0)
    deviation = pixels.std((0, 2, 3), correction=0)
    assert_close(torch.tensor(shape.deviation).double(), deviation, atol=1e-4, rtol=0)
    network: Any = model.build(common.settings(tmp_path).model, shape)
    given: list[torch.Tensor] = []
    network.inner.register_forward_pre_hook(
        lambda _, __, named: given.append(named["pixel_values"]), with_kwargs=True
    )
    network(pixels.byte())
    assert_close(given[0].mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    assert_close(given[0].std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_fresh_network_begins_with_usual_weights(tmp_path: Path) -> None:
    """Norms change nothing and biases add nothing; matrices keep the size of what they multiply."""
    shape = data.Shape(16, [0.0] * 3, [1.0] * 3, weights="", labels=["a", "b"])
    cfg = common.settings(tmp_path).model
    for name, parameter in model.build(cfg, shape).named_parameters():
        if parameter.ndim == 1:
            of_norm = "norm" in name and name.endswith("weight")
            assert (parameter == float(of_norm)).all(), name
        elif parameter.numel() > 100:
            assert parameter.std().item() == pytest.approx(cfg.width**-0.5, rel=0.3), name


def test_augmentation(tmp_path: Path) -> None:
    """Random for training images, repeated by the same seed, absent from validation."""
    draw(tmp_path / "images", 4)
    for path in (tmp_path / "images").rglob("*.png"):
        Image.linear_gradient("L").save(path)
    cfg = settings(tmp_path, crop=0.5, jitter=0.3)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    for split, changes in ((splits.train, True), (splits.val, False)):
        chosen = list(range(len(split)))
        torch.manual_seed(1)
        one, other = split.__getitems__(chosen), split.__getitems__(chosen)
        torch.manual_seed(1)
        again = split.__getitems__(chosen)
        assert torch.equal(one.inputs, again.inputs)
        assert torch.equal(one.inputs, other.inputs) != changes, "drawn once, or for validation"


def test_parts_lie_within_the_image() -> None:
    """Of a random area, shape and place, and on the average as large as data.crop says."""
    augment = replace(PLAIN, crop=0.6)
    for size in ((33, 47), (53, 22), (1, 9)):  # to the last bit, or Pillow refuses the part
        for box in (augment.box(*size) for _ in range(1000)):
            assert 0 <= box[0] < box[2] <= size[0]
            assert 0 <= box[1] < box[3] <= size[1]
    boxes = torch.tensor([augment.box(200, 100) for _ in range(500)])
    left, upper, right, lower = boxes.unbind(1)
    areas = (right - left) * (lower - upper) / 20000
    assert 0.4 - 1e-3 <= areas.min() < 0.45
    assert areas.max() <= 1
    assert areas.mean() == pytest.approx(0.7, abs=0.03)
    assert (left / (200 - right + left)).std() > 0.2, "always the same place"
    square = torch.tensor([augment.box(200, 200) for _ in range(500)])
    forms = (square[:, 2] - square[:, 0]) / (square[:, 3] - square[:, 1])
    assert 3 / 4 - 1e-3 <= forms.min() < 0.8 < 1.25 < forms.max() <= 4 / 3 + 1e-3, "other shapes"


def test_order_of_files_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes would hold out other images; and cameras write their endings in capitals."""
    for place in ("b", "a", "a/deeper"):
        (tmp_path / place).mkdir()
        for name in ("2.JPG", "1.png", "3.Jpeg"):
            (tmp_path / place / name).touch()
    walk, end = os.walk, False

    def turned(top: Path, **options: Any) -> Iterator[tuple[str, list[str], list[str]]]:
        for place, inside, names in walk(top, **options):
            for listed in (inside, names):
                listed.sort(reverse=end)
            yield place, inside, names

    monkeypatch.setattr(os, "walk", turned)
    found = images.files_below(tmp_path)
    end = True
    assert len(found) == 9
    assert images.files_below(tmp_path) == found, "files are read in the order of the disk"


def test_images_are_looked_at_in_their_order() -> None:
    """What is seen of the first ones counts for training, whichever thread is done first."""
    places = [images.Place("", number) for number in range(20)]
    later = threading.Event()

    def see(place: images.Place) -> int:
        if place.label == 5:
            later.set()
        if place.label == 0:
            assert later.wait(20), "images are looked at one after the other"
        return place.label

    assert [*images.look(places, see)] == list(range(20))


def test_parts_are_as_sharp_as_the_file(tmp_path: Path) -> None:
    """A JPEG is reduced while it is read, but never to fewer pixels than the part has."""
    stripes = torch.arange(4, 516).div(8, rounding_mode="floor") % 2 * 255
    pixels = stripes.byte().expand(512, 512).contiguous().numpy()
    Image.fromarray(pixels).save(tmp_path / "stripes.jpg", quality=95)
    part = replace(PLAIN, crop=0.5).part(tmp_path, images.Place("stripes.jpg", 0), 64)
    assert part.float().std() > 40, "blurred"


def test_changes_of_colours() -> None:
    """Nothing changes nothing; half of all are mirrored; grey stays grey, and within its bounds."""
    given = torch.randint(256, (64, 3, 8, 8), dtype=torch.uint8)
    assert PLAIN(given).equal(given)
    mirrored = replace(PLAIN, flip=True)(given)
    turned = (mirrored == given.flip(3)).flatten(1).all(1).sum().item()
    same = (mirrored == given).flatten(1).all(1).sum().item()
    assert turned + same == 64, "images are mirrored otherwise than left for right"
    assert 16 < turned < 48, "the images of a batch are mirrored together, or none is"
    grey = torch.full((64, 3, 8, 8), 100, dtype=torch.uint8)
    changed = replace(PLAIN, jitter=0.2)(grey)
    assert (changed == changed[:, :1, :1, :1]).all(), "grey gets a colour"
    bounds = changed.min(), changed.max()
    assert 80 <= bounds[0] < 90 < 110 < bounds[1] <= 120, "not as far as data.jitter says"
    white = replace(PLAIN, jitter=0.2)(torch.full((64, 3, 8, 8), 255, dtype=torch.uint8))
    assert white.min() >= 204, "brighter than white becomes dark"


def mixing(folder: Path) -> data.Splits:
    """The images of `draw`, mixed for the training."""
    draw(folder / "images", 6)
    cfg = settings(folder, mixup=1.0)
    data.prepare(cfg)
    return data.open_splits(cfg)


def test_mixtures(tmp_path: Path) -> None:
    """Shares of classes are those of pixels, and repeat by the same seed; validation has none."""
    train, val, _ = mixing(tmp_path)
    chosen = list(range(len(train)))
    torch.manual_seed(1)
    one, other = train.__getitems__(chosen), train.__getitems__(chosen)
    torch.manual_seed(1)
    again = train.__getitems__(chosen)
    assert torch.equal(one.inputs, again.inputs)
    assert torch.equal(one.targets, again.targets)
    assert not torch.equal(one.targets, other.targets)
    for batch in (one, other):
        assert batch.inputs.dtype == torch.uint8
        assert_close(batch.targets.sum(1), torch.ones(len(train)))
        shares = batch.inputs.float().mean((2, 3)).flip(1) / 255  # red is channel 0 and class 2
        far = (batch.targets - shares).abs().max()
        assert far < 0.02, "shares of classes are not those of the pixels"
        alone = train.files.targets[chosen]
        assert batch.targets[chosen, alone].min() >= 0.5 - 1e-6, "another image is seen more"
        assert 0.05 < batch.targets.sort(1).values[:, 1].std() < 0.4, "all have the same shares"
    assert colours(val)
    batch = train.__getitems__([0])
    assert batch.targets.tolist() == [F.one_hot(train.files.targets[0], 3).tolist()]


def test_loss_of_mixtures(tmp_path: Path) -> None:
    """Each class's loss by its share; what fills a micro-batch up does not count."""
    batch = mixing(tmp_path).train.__getitems__([0, 1, 2, 3, 4])
    batch.targets[3:] = data.IGNORE
    assert data.counts(batch.targets).tolist() == [True] * 3 + [False] * 2
    outputs = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros((), dtype=torch.float64)
    for output, shares in zip(outputs[:3], batch.targets[:3], strict=True):
        losses = [F.cross_entropy(output, torch.tensor(number)) for number in range(3)]
        expected = expected + sum(share * loss for share, loss in zip(shares, losses, strict=True))
    found = model.loss_sum(outputs, batch.targets)
    assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(loss, outputs)[0] for loss in (found, expected))
    assert_close(ours, theirs)


def noted(cfg: config.Config) -> tuple[reference.Record, list[list[data.Batch]]]:
    """A rank's training, and its micro-batches of each step."""
    steps_seen = list[list[data.Batch]]()
    train_step = steps.train_step

    def note(state: Any, step_batch: loading.StepBatch, *rest: Any) -> None:
        steps_seen.append({{ 'step_batch.batches' if accumulation else '[step_batch.batch]' }})
        train_step(state, step_batch, *rest)

    common.replace(steps, "train_step", note)
    return reference.record(cfg, SAMPLES), steps_seen


def plain(cfg: config.Config, joined: list[data.Batch]) -> reference.Record:
    """The plain loop on batches that are there already, one for each step."""
    shares = loading.plan(cfg.train, 1)._replace(micro_batch=cfg.train.global_batch_size)
    common.replace(loading, "plan", lambda *_: shares)
    common.replace(loading, "build", lambda *_: SimpleNamespace(train=joined))
    return reference.by_hand(cfg, SAMPLES)


def test_ranks_learn_mixtures_as_a_plain_loop_does(tmp_path: Path) -> None:
    """Losses, norms and weights, whatever counts on each rank."""
    cfg = common.settings(tmp_path, "data.mixup=0.4")
    ranks = processes.run(2, noted, cfg)
    joined = []
    for parts in zip(*(seen for _, seen in ranks), strict=True):
        tensors = zip(*(batch for of_rank in parts for batch in of_rank), strict=True)
        joined.append(data.Batch(*map(torch.cat, tensors)))
    assert joined[0].targets.ndim == 2
    expected = processes.run(1, plain, cfg, joined, beside=2)[0]
    for found, _ in ranks:
        assert found.losses == pytest.approx(expected.losses, rel=1e-9)
        assert found.norms == pytest.approx(expected.norms, rel=1e-9)
        for name, weight in expected.weights.items():
            assert_close(found.weights[name], weight, atol=1e-9, rtol=0)


# --- Pretrained networks --------------------------------------------------------------------------

NETWORKS: dict[str, Any] = {
    "Dinov2": lambda: transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
    ),
    "ResNet": lambda: transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    ),
    "ConvNext": lambda: transformers.ConvNextConfig(
        hidden_sizes=[8, 16], depths=[1, 1], num_stages=2
    ),
    "Swin": lambda: transformers.SwinConfig(
        image_size=28, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=7
    ),
}


def save_pretrained(folder: Path, kind: str) -> Any:
    """A small network with a head for two classes, in bfloat16, and its processor; the network."""
    size = NETWORKS[kind]()
    network = transformers.AutoModelForImageClassification.from_config(size)
    network.to(torch.bfloat16).save_pretrained(folder)
    about: dict[str, Any] = {"size": {"shortest_edge": 32}, "do_center_crop": True}
    about |= {"crop_size": {"height": 28, "width": 28}}
    about |= {"image_mean": [0.5, 0.4, 0.2], "image_std": [0.2, 0.2, 0.4]}
    (folder / data.PROCESSOR).write_text(json.dumps(about))
    return network


def opened(folder: Path, kind: str) -> tuple[Any, data.Splits]:
    """What was saved, and three classes of images for that network."""
    saved = save_pretrained(folder / "network", kind)
    draw(folder / "images", 2)
    cfg = settings(folder, pretrained=str(folder / "network"))
    data.prepare(cfg)
    return saved, data.open_splits(cfg)


@pytest.mark.parametrize("kind", NETWORKS)
def test_pretrained_network(kind: str, tmp_path: Path) -> None:
    """Its weights in float32, its size, mean and deviation; a new head; all else is trained."""
    saved, splits = opened(tmp_path, kind)
    assert splits.shape.size == 28
    assert splits.shape.mean == [127.5, 102.0, 51.0]
    assert splits.shape.deviation == [51.0, 51.0, 102.0]
    network: Any = model.build(common.settings(tmp_path).model, splits.shape)
    expected = dict(model.backbone(saved).named_parameters())
    for name, weight in model.backbone(network.inner).named_parameters():
        assert weight.dtype == torch.float32
        assert weight.equal(expected[name].float())
    batch = splits.train.__getitems__([0, 1, 2, 3])
    for _ in range(2):
        loss = model.loss_sum(network(batch.inputs), batch.targets)
        loss.backward()
    unreached = {n for n, p in network.named_parameters() if p.requires_grad and p.grad is None}
    assert not unreached, "{{ "these weights are never trained" if sharded else "DDP would wait for their gradients" }}"
    # {% if not sharded %}
    gradients = {n: (p, p.grad) for n, p in network.named_parameters() if p.grad is not None}
    other = [n for n, (p, grad) in gradients.items() if grad.stride() != p.stride()]
    assert not other, "gradients that DDP copies"
    # {% endif %}
    norms = {type(part).__name__: part for part in network.modules() if hasattr(part, "momentum")}
    for norm in norms.values():
        assert not norm.training
        assert norm.num_batches_tracked == 0, "statistics of this rank's own samples"
    assert network.inner.training, "dropout would be off"


@pytest.mark.parametrize("kind", ["Dinov2", "ResNet"])
def test_only_the_head_is_trained(kind: str, tmp_path: Path) -> None:
    """With model.freeze; else the backbone has a learning rate of its own."""
    _, splits = opened(tmp_path, kind)
    cfg = common.settings(tmp_path, "model.freeze=true", "optim.backbone_lr=0.5")
    network = model.build(cfg.model, splits.shape)
    trained = {name for name, p in network.named_parameters() if p.requires_grad}
    assert trained
    assert all("classifier" in name for name in trained)
    network = model.build(replace(cfg.model, freeze=False), splits.shape)
    with distributed.session(cfg.{{ wrapper }}) as process:  # a world of one rank
        network.to(process.device)
        names = {id(p): name for name, p in network.named_parameters()}
        optimizer = optim.build(network, cfg.optim)
        rate = torch.tensor(0.25, device=process.device)
        optim.step(optimizer, torch.zeros_like(rate), rate)
    for group in optimizer.param_groups:
        of_head = {"classifier" in names[id(p)] for p in group["params"]}
        assert of_head == {group["lr"].item() == 0.25}, "the rate of the other part"
        assert group["lr"].item() in (0.25, 0.125), "optim.backbone_lr is not the factor"


def test_gradients_of_single_images_add_up(tmp_path: Path) -> None:
    """Micro-batches of one image: no parameter's gradient is a part of another's."""
    cfg = common.settings(tmp_path)
    data.prepare(cfg.data)
    splits = data.open_splits(cfg.data)
    network = model.build(cfg.model, splits.shape)

    def gradients(*indices: int) -> dict[str, Tensor]:
        network.zero_grad()
        for index in indices:
            batch = splits.val.__getitems__([index])
            model.loss_sum(network(batch.inputs), batch.targets).backward()
        named = network.named_parameters()
        return {name: p.grad.clone() for name, p in named if p.grad is not None}

    one, other = gradients(0), gradients(1)
    for name, both in gradients(0, 1).items():
        assert_close(both, one[name] + other[name], msg=f"{name} has the gradient of another")


def test_networks_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """No folder, no processor, no classifier, weights of another network; nothing to freeze."""
    _, splits = opened(tmp_path, "Dinov2")
    cfg = common.settings(tmp_path)
    with pytest.raises(config.ConfigError, match="is no folder, and cannot be fetched"):
        data.prepare(settings(tmp_path, pretrained="absent/model/name"))
    (tmp_path / "network" / data.PROCESSOR).write_text('{"size": {"height": 4, "width": 8}}')
    with pytest.raises(config.ConfigError, match="only squares"):
        data.prepare(settings(tmp_path, pretrained=str(tmp_path / "network")))
    (tmp_path / "network" / data.PROCESSOR).unlink()
    with pytest.raises(config.ConfigError, match="does not say how the network sees images"):
        data.prepare(settings(tmp_path, pretrained=str(tmp_path / "network")))
    path = tmp_path / "network" / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "num_hidden_layers": 3}))
    with pytest.raises(config.ConfigError, match=r"no weights that fit for .*layer\.2"):
        model.build(cfg.model, splits.shape)
    fewer = {"num_hidden_layers": 1, "stage_names": None, "out_features": None, "out_indices": None}
    path.write_text(json.dumps(about | fewer))
    with pytest.raises(config.ConfigError, match=r"has weights for .*layer\.1\."):
        model.build(cfg.model, splits.shape)
    path.write_text(json.dumps({**about, "num_channels": 4}))
    with pytest.raises(config.ConfigError, match=r"takes no images of 3 channels"):
        model.build(cfg.model, splits.shape)
    path.write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(config.ConfigError, match="holds no image classifier"):
        model.build(cfg.model, splits.shape)
    with pytest.raises(config.ConfigError, match=r"needs a network in data\.pretrained"):
        model.build(replace(cfg.model, freeze=True), replace(splits.shape, weights=""))


def test_node_without_the_network_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes may share the data and not the cache; what ranks open is on their own node."""
    save_pretrained(tmp_path / "origin", "ResNet")
    draw(tmp_path / "images", 2)
    cfg = settings(tmp_path, pretrained="some/network")
    shape = hub.of_another_node(monkeypatch, tmp_path / "origin", cfg)
    model.build(common.settings(tmp_path).model, shape)


def test_network_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data's preparation fetches the network; the ranks open this node's copy, by its path."""
    copy = tmp_path / "hub" / "models--some--network"
    save_pretrained(copy / "snapshots" / hub.REVISION, "ResNet")
    (copy / "refs").mkdir()
    (copy / "refs" / "main").write_text(hub.REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(copy.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    draw(tmp_path / "images", 2)
    cfg = settings(tmp_path, pretrained="some/network")
    data.prepare(cfg)
    assert data.open_splits(cfg).shape.weights == str(copy / "snapshots" / hub.REVISION)
    copy.rename(tmp_path / "elsewhere")
    with pytest.raises(config.ConfigError, match="the pretrained network is gone"):
        data.open_splits(cfg)


# {% include "parts/prepare/test_notes.py" %}
