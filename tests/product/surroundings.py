"""What a program finds around it in its process, put back after each; and what it may not leave."""

import multiprocessing
import os
import random
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch


def _set_environment(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _set_handlers(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _set_warnings(filters: list[Any]) -> None:
    warnings.filters[:] = filters


def _set_device(device: torch.device) -> None:
    if torch.get_default_device() != device:  # a default, once set, is looked up in each call
        torch.set_default_device(device)


def _precisions() -> dict[str, Any]:
    """Of autocast on this device."""
    return {"on": torch.is_autocast_enabled("cpu"), "type": torch.get_autocast_dtype("cpu")}


def _set_precisions(found: Mapping[str, Any]) -> None:
    torch.set_autocast_enabled("cpu", found["on"])
    torch.set_autocast_dtype("cpu", found["type"])


# What may be changed by a program, each with what reads it and what puts it back.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "environment": (lambda: dict(os.environ), _set_environment),
    "current folder": (os.getcwd, os.chdir),
    "arguments": (lambda: list(sys.argv), lambda found: setattr(sys, "argv", list(found))),
    "signals": (_handlers, _set_handlers),
    "warnings": (lambda: list(warnings.filters), _set_warnings),
    "excepthook": (lambda: sys.excepthook, lambda found: setattr(sys, "excepthook", found)),
    "recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "type": (torch.get_default_dtype, torch.set_default_dtype),
    "device": (torch.get_default_device, _set_device),
    "products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "determinism": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "autocast": (_precisions, _set_precisions),
    "random": (random.getstate, random.setstate),
    "numpy's random": (np.random.get_state, np.random.set_state),
    "torch's random": (torch.get_rng_state, torch.set_rng_state),
}
# Functions of these must be the same ones afterwards: a program may not put its own in their place.
LIBRARIES = ("torch", "random", "os", "signal", "json", "builtins")

# What libraries open for themselves, such as libffi the memory of its closures.
UNNAMED = re.compile(r"/dev/|/proc/|/.+/#\d+ \(deleted\)$")


class Surroundings:
    """As they are now."""

    def __init__(self) -> None:
        self.settings = {name: read() for name, (read, _) in SETTINGS.items()}
        self.threads = set(threading.enumerate())
        self.files = _open_files()
        self.functions = {name: _functions(module) for name, module in _libraries().items()}

    def restore(self) -> None:
        """Put back all settings."""
        for name, (_, put_back) in SETTINGS.items():
            put_back(self.settings[name])

    def left(self) -> list[str]:
        """What was not there then, in words."""
        found = [f"thread {t.name}" for t in threading.enumerate() if t not in self.threads]
        found += [f"process {child.name}" for child in multiprocessing.active_children()]
        found += [f"open file {name}" for name in _open_files() - self.files]
        for name, before in self.functions.items():
            now = vars(sys.modules[name])
            if not before.items() <= now.items():  # which takes no time
                found += [f"another {name}.{f}" for f in before if now.get(f) is not before[f]]
        return found


def _open_files() -> set[str]:
    """Those with a name; pipes and sockets of libraries come and go."""
    names = set()
    for entry in Path("/proc/self/fd").glob("[0-9]*"):
        if entry.name in ("0", "1", "2"):  # what it says
            continue
        try:
            name = str(entry.readlink())
        except OSError:  # the one that lists them
            continue
        if name.startswith("/") and not UNNAMED.match(name):
            names.add(name)
    return names


def _libraries() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in LIBRARIES and isinstance(module, ModuleType)
    }


def _functions(module: ModuleType) -> dict[str, object]:
    kinds = (FunctionType, BuiltinFunctionType, type)
    return {n: value for n, value in vars(module).items() if issubclass(type(value), kinds)}
