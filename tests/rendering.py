"""Many renders in one process: three times as fast, with the same result."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jinja2 import Environment

ENDS = ("start", "end")
SETTINGS = [*(f"{kind}_{end}_string" for kind in ("block", "variable", "comment") for end in ENDS)]
SETTINGS += ["trim_blocks", "lstrip_blocks", "keep_trailing_newline", "autoescape", "undefined"]
COMPILED: dict[tuple[Any, ...], Any] = {}


@contextmanager
def compile_once() -> Iterator[None]:
    """Let jinja2 compile each source once, though copier makes a new environment for every render.

    Compiled code depends on the source and on the environment's settings, such as its marks.
    """
    original = Environment.compile

    def compile_(self: Environment, source: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(source, str):
            return original(self, source, *arguments, **options)
        settings = (getattr(self, name) for name in SETTINGS)
        key = (source, *settings, *self.extensions, *arguments, *sorted(options.items()))
        if key not in COMPILED:
            COMPILED[key] = original(self, source, *arguments, **options)
        return COMPILED[key]

    Environment.compile = compile_
    try:
        yield
    finally:
        Environment.compile = original
