"""What follows from the template alone, and takes seconds: worked out once, for all processes."""

import hashlib
import json
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import filelock

from ddpgen import asking
from ddpgen.fetching import template_source
from ddpgen.rendering import texts

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build" / "kept"
DECIDING = [
    template_source.template_root(),
    Path(asking.__file__).parent,
    Path(texts.__file__),
    HERE,
    HERE.parent / "clusters" / "variants.py",
]
F = TypeVar("F", bound=Callable[..., Any])


def kept(function: F) -> F:
    """Keep a function's answer, which JSON can hold, until one of the files that decide changes.

    Its arguments are texts that fit into the name of a file.
    """

    @cache
    @wraps(function)
    def answer(*arguments: str) -> Any:
        path = FOLDER / f"{'-'.join([function.__name__, *arguments, _state()])}.json"
        FOLDER.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock")):
            if not path.exists():
                begun = path.with_suffix(".begun")
                begun.write_text(json.dumps(function(*arguments)))
                begun.rename(path)
        return json.loads(path.read_text())

    return cast("F", answer)


@cache
def _state() -> str:
    digest = hashlib.sha256()
    for place in DECIDING:
        for path in [place, *sorted(place.rglob("*"))]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(place)).encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
