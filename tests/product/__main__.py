"""Does once, on all cores, what every test worker would wait for: see kept.py."""

from concurrent.futures import ProcessPoolExecutor

from clusters import variants

from product import programs, test_files


def main() -> None:
    """Work it out."""
    tasks = [programs.parts, variants.rendered, programs.every_pair, programs.every_value]
    with ProcessPoolExecutor(len(tasks) + 1) as pool:
        begun = [pool.submit(test_files.projects, *test_files.PYTHON)]
        begun += [pool.submit(task) for task in tasks]
        for done in begun:
            done.result()


if __name__ == "__main__":
    main()
