"""Lets Jinja compile each text once.

For each file copier compiles anew the parts of its path and the name of the answers file, and it
makes an environment for each render: of some 1,500 texts for a project a third differ. Jinja itself
keeps what it compiles of files alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_ENDS = ("start", "end")
_SETTINGS = (
    *(f"{kind}_{end}_string" for kind in ("block", "variable", "comment") for end in _ENDS),
    "trim_blocks",
    "lstrip_blocks",
    "keep_trailing_newline",
    "autoescape",
    "undefined",
)
_CODE: dict[tuple[Any, ...], Any] = {}  # by text, settings of the environment, and arguments


@contextmanager
def once() -> Iterator[None]:
    """Within this context, environments take the code of a text that was compiled before.

    Code depends on the text and on the environment's settings, such as its marks.
    """
    from jinja2 import Environment  # only needed where projects are rendered

    environment: Any = Environment
    original = environment.compile

    def compile_(self: "Environment", source: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(source, str):
            return original(self, source, *arguments, **options)
        settings = (getattr(self, name) for name in _SETTINGS)
        key = (source, *settings, *self.extensions, *arguments, *sorted(options.items()))
        if key not in _CODE:
            _CODE[key] = original(self, source, *arguments, **options)
        return _CODE[key]

    environment.compile = compile_
    try:
        yield
    finally:
        environment.compile = original
