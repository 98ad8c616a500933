"""Looks at a folder, or at the files that a pattern names: which of them a family reads."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpgen.asking import images, splits, text_folders
from ddpgen.asking.files import RECORDS, in_images, look_at_file, tokens
from ddpgen.asking.formats import PLAIN
from ddpgen.asking.found import Found, number
from ddpgen.errors import DdpgenError, show

TABLES = {".csv", ".tsv", ".parquet"}


def look_in_folder(folder: Path) -> Found | None:
    """What a folder holds; nothing where no family reads it."""
    tables = _inside(folder, TABLES)
    if tables and images.named_as_splits(folder):
        _several(folder, tables)  # may name the images
    if found := in_images(folder):
        beside = [path.name for path in tables if path.suffix.lower() != ".parquet"]
        told = f"not read: {', '.join(beside)}: the folders' names are the classes"
        return found.saying([told] if beside else [])
    if found := _split_records(folder):
        return found
    if files := _inside(folder, {".bin"}):
        return _tokens(folder, files)
    if files := tables or _inside(folder, {".jsonl"}):
        found = _several(folder, files)
        return found and found.saying([*_not_read(folder, files)])
    if (inside := _only_folder(folder)) and (found := look_in_folder(inside)):
        return found
    return text_folders.look(folder)


def _not_read(folder: Path, files: Sequence[Path]) -> Iterator[str]:
    """Words about what else lies in a folder."""
    others = [path for path in _inside(folder, {*RECORDS, *PLAIN}) if path not in files]
    if others:
        shown = f"{others[0].name}, ... ({len(others):,} files)"
        yield f"not read: {others[0].name if len(others) == 1 else shown}"
    if more := images.loose(folder):
        yield f"not read: {number(more, 'image')}"


def below(folder: Path) -> tuple[str, str]:
    """Why no family reads a folder whose tables lie in folders below, and the way out; or ""."""
    known = (path for path in folder.rglob("*.*") if _ending(path) in TABLES)
    found = sorted(path for path in known if path.is_file() and not path.name.startswith("."))
    kinds = {path.suffix for path in found}
    if not found or len(kinds) > 1 or any(path.parent == folder for path in found):
        return "", ""
    ending, root = kinds.pop(), str(folder.absolute())
    code = [
        f"these lines of Python copy them into one folder, then: --data 'tables/*{ending}'",
        "  import pathlib, shutil",
        "  pathlib.Path('tables').mkdir()",
        f"  for path in pathlib.Path({root!r}).rglob('*{ending}'):",
        f"      name = '-'.join(path.relative_to({root!r}).parts)",
        "      shutil.copy(path, f'tables/{name}')",
    ]
    first = found[0].relative_to(folder)
    return f"its tables lie in folders below, such as {first}", "\n  ".join(code)


def _only_folder(folder: Path) -> Path | None:
    """The folder that is all there is in a folder, as archives have it."""
    shown = [path for path in folder.iterdir() if not path.name.startswith(images.HIDDEN)]
    alone = len(shown) == 1 and shown[0].is_dir() and not shown[0].is_symlink()
    return shown[0] if alone else None


def look_at_pattern(path: Path) -> Found | None:
    """Files that a pattern names, of which only tables are read."""
    if not (files := sorted(path.parent.glob(path.name))) or path.exists():
        return None
    found = look_at_file(files[0]) if files[0].suffix.lower() in TABLES else None
    if not found or found.kind != "rows":
        raise DdpgenError(
            f"--data {show(str(path))}: only tables are read by a pattern",
            remedy=f"give the folder: --data {show(str(path.parent), 1000)}",
        )
    return _by_pattern(found, path.parent, path.name, len(files))


def _inside(folder: Path, endings: set[str]) -> list[Path]:
    found = (path for path in folder.glob("*") if _ending(path) in endings)
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def _ending(path: Path) -> str:
    """The ending of a file, or of what is compressed in a file."""
    packed = path.suffix.lower() in (".gz", ".bz2")
    return Path(path.stem if packed else path.name).suffix.lower()


def _split_records(folder: Path) -> Found | None:
    """Texts with labels in files of the training split."""
    train = [path for path in splits.of_classifier(folder, "train") if path.suffix in RECORDS]
    inside = look_at_file(train[0]) if train else None
    if not inside or inside.kind != "labelled texts":
        return None
    val = splits.of_classifier(folder, *splits.VALIDATION)
    left = [path for path in _inside(folder, {*RECORDS}) if path not in [*train, *val]]
    words = [*splits.held_out(val), *splits.left_out(left)]
    if left and not val:
        words.append("for validation files called val.* or validation.* would be read")
    return inside.at(folder).saying(words)


def _tokens(folder: Path, files: Sequence[Path]) -> Found:
    chosen, left = splits.for_training(files)
    if left and len(chosen) == 1 and not any(map(splits.is_validation, left)):
        return tokens(f"tokens in {chosen[0].name}", chosen[0]).saying(splits.left_out(left))
    return tokens(number(len(files), "file", "of tokens"), folder)


def _several(folder: Path, files: Sequence[Path]) -> Found | None:
    """Files of a folder, of which one is looked at: tables, conversations or texts with labels."""
    chosen, left = splits.for_training(files)
    first = chosen[0]
    same = [path for path in chosen if path.suffix.lower() == first.suffix.lower()]
    words = splits.left_out(left)
    if others := [path.name for path in chosen if path not in same]:
        words.append(f"not read: {', '.join(others)}; all files have to be of one kind")
    if not (found := look_at_file(first)):
        return None
    if found.kind == "conversations":
        return _conversations(folder, found, same, left, words)
    if found.kind == "rows" and (divided := _divided(folder, found, same, left)):
        return divided
    if len(same) == 1:
        return found.saying(words)
    if found.kind == "rows" and (pattern := _pattern(folder, same)):
        return _by_pattern(found, folder, pattern, len(same)).saying(words)
    alone = f"only {first.name} of {len(same):,} files is read: join them into one"
    return found.saying([alone, *words])


def _conversations(
    folder: Path, found: Found, same: Sequence[Path], left: Sequence[Path], words: list[str]
) -> Found:
    """Conversations: the program reads all files of a folder, and holds those of val out."""
    val, tests, others = splits.by_names(left)
    if not others:
        said = [*splits.held_out(val), *splits.left_out(tests)]
        return found.at(folder if len(same) + len(left) > 1 else same[0]).saying(said)
    if len(same) == 1:
        return found.saying(words)
    names = ", ".join(path.name for path in others)
    return found.at(folder).saying([f"move {names} elsewhere: the program would train on it"])


def _divided(
    folder: Path, found: Found, train: Sequence[Path], left: Sequence[Path]
) -> Found | None:
    """Tables of which the program holds those of val out, and leaves tests out beside train."""
    val, tests, others = splits.by_names(left)
    by_name = any(splits.words(path) & splits.TRAINING for path in train) or not tests
    if not val or others or not by_name:
        return None
    words = [*splits.held_out(val), *splits.left_out(tests)]
    pattern = _pattern(folder, [*train, *left])
    return _by_pattern(found, folder, pattern, len(train)).saying(words) if pattern else None


def _pattern(folder: Path, files: Sequence[Path]) -> str:
    """A pattern that names these files of a folder and no others, or ""."""
    names = [path.name for path in files]
    begins = (names[0][:size] for size in range(len(names[0]), -1, -1))
    begin = next(b for b in begins if all(name.startswith(b) for name in names))
    ending = files[0].suffix
    if any(path.suffix != ending for path in files):  # A.csv and B.CSV
        ending = "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in ending.lower())
    patterns = (f"*{ending}", f"{glob.escape(begin)}*{ending}")
    return next((p for p in patterns if sorted(folder.glob(p)) == sorted(files)), "")


def _by_pattern(found: Found, folder: Path, pattern: str, count: int) -> Found:
    """Tables that a pattern names; whatever characters the folder's own name has."""
    source = f"data.source={glob.escape(str(folder.absolute()))}/{pattern}"
    words = [f"{count:,} tables; of the first:", *found.words] if count > 1 else found.words
    return found._replace(words=words, arguments=[source, *found.arguments[1:]])
