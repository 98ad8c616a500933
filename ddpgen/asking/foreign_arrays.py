"""Lines of Python that write images and numbers in binary files as what a family reads."""

from collections.abc import Sequence
from pathlib import Path

from ddpgen.asking.foreign_lines import at, indented

_MAKE = "(folder := pathlib.Path(f'images/{label}')).mkdir(parents=True, exist_ok=True)"


def of_idx(folder: Path, *, packed: bool) -> list[str]:
    """MNIST's images and labels; the program leaves the folder test/ out."""
    ending = "-ubyte.gz" if packed else "-ubyte"
    opened = "gzip.open" if packed else "open"
    return indented(
        [
            f"import {'gzip, ' if packed else ''}pathlib, struct",
            "from PIL import Image",
            "for part, split in (('train', 'train'), ('t10k', 'test')):",
            f"    file = {str(folder.absolute())!r} + '/' + part",
            f"    images = {opened}(file + '-images-idx3{ending}', 'rb').read()",
            f"    labels = {opened}(file + '-labels-idx1{ending}', 'rb').read()[8:]",
            "    height, width = struct.unpack('>2i', images[8:16])",
            "    for n, label in enumerate(labels):",
            "        folder = pathlib.Path(f'images/{split}/{label}')",
            "        folder.mkdir(parents=True, exist_ok=True)",
            "        begin = 16 + n * height * width",
            "        pixels = images[begin : begin + height * width]",
            "        Image.frombytes('L', (width, height), pixels).save(folder / f'{n}.png')",
        ]
    )


def of_cifar(folder: Path, *, hundred: bool) -> list[str]:
    """CIFAR's images for training, in pickles."""
    pattern, key = ("train", "fine_labels") if hundred else ("data_batch_*", "labels")
    return indented(
        [
            "import pathlib, pickle",
            "from PIL import Image",
            f"for file in pathlib.Path({at(folder)}).glob({pattern!r}):",
            "    batch = pickle.load(file.open('rb'), encoding='bytes')",
            f"    for n, label in enumerate(batch[b{key!r}]):",
            f"        {_MAKE}",
            "        pixels = batch[b'data'][n].reshape(3, 32, 32).transpose(1, 2, 0)",
            "        Image.fromarray(pixels).save(folder / f'{file.name}-{n}.png')",
        ]
    )


def of_cifar_bytes(folder: Path, *, hundred: bool) -> list[str]:
    """CIFAR's images for training, in binary files: a byte or two of labels, then three colours."""
    pattern, size = ("train.bin", 3074) if hundred else ("data_batch_*.bin", 3073)
    return indented(
        [
            "import pathlib",
            "from PIL import Image",
            f"for file in pathlib.Path({at(folder)}).glob({pattern!r}):",
            "    content = file.read_bytes()",
            f"    for end in range({size}, len(content) + 1, {size}):",
            "        label = content[end - 3073]",
            f"        {_MAKE}",
            "        colours = [content[n : n + 1024] for n in range(end - 3072, end, 1024)]",
            "        bands = [Image.frombytes('L', (32, 32), colour) for colour in colours]",
            "        Image.merge('RGB', bands).save(folder / f'{file.stem}-{end}.png')",
        ]
    )


def of_flat(folder: Path) -> list[str]:
    """Images whose names begin with their classes."""
    return indented(
        [
            "import pathlib, re, shutil",
            f"for path in pathlib.Path({at(folder)}).iterdir():",
            "    if name := re.match(r'[^\\W\\d_]+', path.name):",
            "        folder = pathlib.Path('sorted', name[0])",
            "        folder.mkdir(parents=True, exist_ok=True)",
            "        shutil.copy(path, folder)",
        ]
    )


def of_tokens(paths: Sequence[Path]) -> list[str]:
    """Whole numbers of NumPy, without the header."""
    return indented(
        [
            "import numpy",
            f"for path in {[str(path.absolute()) for path in paths]!r}:",
            "    tokens = numpy.load(path).ravel()",
            "    wide = 'int32' if tokens.max() >= 2**16 else 'uint16'",
            "    tokens.astype(wide).tofile(path.removesuffix('.npy') + '.bin')",
            "    print('data.token_dtype=' + wide, 'data.vocabulary=', tokens.max() + 1)",
        ]
    )


def of_array(path: Path, table: str) -> list[str]:
    """Rows and columns of NumPy, with counted names."""
    return indented(
        [
            "import numpy",
            f"rows = numpy.load({at(path)})",
            "names = ','.join(f'column {n}' for n in range(1, rows.shape[1] + 1))",
            f"numpy.savetxt({table!r}, rows, '%.17g', ',', header=names, comments='')",
        ]
    )
