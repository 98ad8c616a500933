"""Does once, on all cores, what every test worker would wait for: see kept.py."""

from concurrent.futures import ProcessPoolExecutor

from clusters import variants

from product import programs

if __name__ == "__main__":
    tasks = (programs.parts, variants.rendered, programs.every_pair, programs.every_value)
    with ProcessPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
