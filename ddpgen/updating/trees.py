"""Trees of git as tables: files by path, read and written without a work tree."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ddpgen.fetching.git import git

_LINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True)
class Entry:
    """A file as git knows it: its mode, and the hash that git calls the name of its content."""

    mode: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether it is neither a link nor a submodule."""
        return self.mode not in (_LINK, _SUBMODULE)


def read(tree: str, repository: Path) -> dict[str, Entry]:
    """Return the files of a tree by path."""
    entries = {}
    for line in git("ls-tree", "-r", "-z", tree, repository=repository).split("\0"):
        if line:
            about, _, path = line.partition("\t")
            mode, _, name = about.split()
            entries[path] = Entry(mode, name)
    return entries


def write(entries: dict[str, Entry], repository: Path) -> str:
    """Return the name of the tree with these files."""
    lines = [f"{entry.mode} {entry.name}\t{path}\0" for path, entry in sorted(entries.items())]
    git("read-tree", "--empty", repository=repository)
    git("update-index", "-z", "--index-info", repository=repository, stdin="".join(lines))
    return git("write-tree", repository=repository)


def contents(entries: Iterable[Entry], repository: Path) -> dict[str, bytes]:
    """Return the contents of files by the name of the content."""
    names = [*dict.fromkeys(entry.name for entry in entries if entry.is_file)]
    command = ["git", "--git-dir", str(repository), "cat-file", "--batch"]
    text = "".join(f"{name}\n" for name in names).encode()
    output = subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE).stdout
    found, start = {}, 0
    for name in names:
        end = output.index(b"\n", start)
        size = int(output[start:end].split()[2])
        found[name] = output[end + 1 : end + 1 + size]
        start = end + size + 2
    return found


def store(content: bytes, repository: Path) -> str:
    """Put a content into a repository; return its name."""
    command = ["git", "--git-dir", str(repository), "hash-object", "-w", "--stdin"]
    done = subprocess.run(command, input=content, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().strip()
