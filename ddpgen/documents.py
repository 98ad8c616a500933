"""Pages of the documentation that ddpgen itself shows: in the package, or in the checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder() -> Path:
    """Return the folder that holds `pitfalls.md` and `check/`."""
    packaged = _PACKAGE / "_docs"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "docs"
