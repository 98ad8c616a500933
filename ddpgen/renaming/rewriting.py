"""Rewrites a Python file after modules moved or names changed, and leaves all else as it is."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import wraps
from itertools import takewhile, zip_longest
from typing import Concatenate, ParamSpec

import libcst as cst
from libcst.metadata import MetadataWrapper

from ddpgen.renaming.leftovers import Renamed
from ddpgen.renaming.moved_imports import MovedImports
from ddpgen.renaming.new_names import Exported, Names, Spelled

_How = ParamSpec("_How")


class UnreadableError(Exception):
    """A file is not Python, as far as this program can read."""


def _once(rewrite: Callable[Concatenate[bytes, _How], bytes]) -> Callable[..., bytes]:
    """Rewrite equal files once.

    A project as ddpgen wrote the project, and as its user has it, share most of their files.
    """
    known: dict[tuple[bytes, str], bytes] = {}

    @wraps(rewrite)
    def rewritten(content: bytes, *args: _How.args, **kwargs: _How.kwargs) -> bytes:
        key = (content, repr((args, kwargs)))
        if key not in known:
            known[key] = rewrite(content, *args, **kwargs)
        return known[key]

    return rewritten


@_once
def imports(content: bytes, modules: Mapping[str, str], rebind: bool = False) -> bytes:
    """Import modules by their new names.

    Args:
        content: a Python file.
        modules: new names of modules by old ones, such as `{"loading": "engine.loading"}`.
        rebind: whether the file uses a module's new last name; else `as` keeps the old one.

    Raises:
        UnreadableError: the file may import the modules, and is not Python.
    """
    if not _mentions(content, modules):
        return content
    return _rewritten(content, lambda module: module.visit(MovedImports(modules, rebind)))


def renewed(content: bytes, changed: Renamed) -> bytes:
    """Use the new names of modules, and of what is imported from them.

    Raises:
        UnreadableError: the file may use the names, and is not Python.
    """
    return exported(imports(content, changed.modules), changed.exported)


def changed_lines(before: bytes, after: bytes) -> Iterator[tuple[int, str]]:
    """Yield the lines that were rewritten: number in the old file, and both texts."""
    old, new = (content.decode("utf-8", "replace").splitlines() for content in (before, after))
    for kind, first, last, begin, end in SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            lines = zip_longest(old[first:last], new[begin:end], fillvalue="")
            for number, pair in enumerate(lines, first + 1):
                yield number, " -> ".join(text.strip() for text in pair)


@_once
def names(content: bytes, changed: Names) -> bytes:
    """Use new names in a file of the template, which a user may have edited.

    Raises:
        UnreadableError: the file may use the names, and is not Python.
    """
    if not _mentions(content, [*changed.variables, *changed.attributes, *changed.direct]):
        return content
    return _rewritten(content, lambda module: module.visit(Spelled(changed)))


@_once
def exported(content: bytes, new_names: Mapping[str, str]) -> bytes:
    """Use new names in a user's own file of what the file imports from the template's modules.

    Args:
        content: a Python file.
        new_names: new names by full old ones, such as `{"engine.loading.Window": "StepBatch"}`.

    Raises:
        UnreadableError: the file may use the names, and is not Python.
    """
    if not _mentions(content, new_names):
        return content
    return _rewritten(content, lambda module: MetadataWrapper(module).visit(Exported(new_names)))


def _mentions(content: bytes, dotted: Iterable[str]) -> bool:
    """Return whether the last part of any name stands in a file, the first of `a.b` too."""
    parts = {part for name in dotted for part in (name.partition(".")[0], name.rpartition(".")[2])}
    return bool(re.search(rf"\b({'|'.join(map(re.escape, parts))})\b".encode(), content))


def _rewritten(content: bytes, rewrite: Callable[[cst.Module], cst.Module]) -> bytes:
    """Rewrite a file but its last comments and blank lines.

    LibCST drops those that are indented in another way than the last block.
    """
    lines = content.splitlines(keepends=True)
    tail = len(list(takewhile(_says_nothing, reversed(lines))))
    code = b"".join(lines[: len(lines) - tail])
    return rewrite(_parsed(code)).bytes + content[len(code) :]


def _says_nothing(line: bytes) -> bool:
    return line.strip()[:1] in {b"", b"#"}


def _parsed(content: bytes) -> cst.Module:
    try:
        module = cst.parse_module(content)
    except (cst.ParserSyntaxError, UnicodeDecodeError, SyntaxError) as error:
        raise UnreadableError from error
    if module.bytes != content:
        raise UnreadableError
    return module
