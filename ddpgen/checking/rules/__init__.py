"""One module per theme; importing them fills the table, so that a new file here is a new theme."""

from importlib import import_module
from pkgutil import iter_modules

from ddpgen.checking.registry import RULES

for found in iter_modules(__path__):
    import_module(f"{__name__}.{found.name}")

__all__ = ["RULES"]
