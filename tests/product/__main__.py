"""Does once, on all cores, what every test worker does or waits for: kept.py, imports."""

import importlib
from concurrent.futures import ProcessPoolExecutor

from clusters import variants

from product import programs
from product.forkserver import PRELOADED


def import_all() -> None:
    """Import what forked ranks find imported."""
    for name in PRELOADED[:-1]:
        importlib.import_module(name)


if __name__ == "__main__":
    tasks = (import_all, variants.rendered, programs.parts, programs.every_pair)
    with ProcessPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in (*tasks, programs.every_value)]:
            done.result()
