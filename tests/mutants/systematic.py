"""Puts changes made by syntax into generated projects, and runs the tests that can see them.

python -m mutants.systematic [COUNT] [SEED] [PROJECT ...]    in the folder tests

COUNT mutants of each project are tried, drawn by the seed; which survive is said, and written to
docs/mutants.json.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from product import template
from product.preloaded import run_tests

from ddpgen.asking.question import Answers
from mutants import names, seen, shell, syntax
from mutants.syntax import Mutant

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "docs" / "mutants.json"
TABLE = HERE / "equivalent.toml"
VARIABLES = {"WANDB_MODE": "offline", "COLUMNS": "250"}  # whole messages, in one line
KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"

# The default project, and one with much of what can be chosen.
PROJECTS: dict[str, Answers] = {
    "plain": {"model": "mlp"},
    "rich": {
        "model": "gpt",
        "amp": "bf16",
        "accumulation": True,
        "activation_checkpointing": True,
        "sharding": "zero1",
        "tracker": "tensorboard",
    },
    "launch": {"clusters": ["local", "slurm", "ssh", "pbs", "lsf"], "gpus_per_node": 2},
}
FILES = {
    "plain": ["engine/*.py", "steps.py", "optim.py", "train.py", "config.py"],
    "rich": ["engine/*.py", "steps.py", "optim.py", "train.py", "data.py"],
    "launch": ["launch/*.sh", "launch/*.sbatch"],
}
LAUNCH_TESTS = "tests/engine/test_launch.py"
# A launch file that lacks a quote may write over programs: `tee` took a command's words for files.
SHIELD = """
for folder in /usr /etc; do
    mount --bind "$folder" "$folder"
    mount -o remount,bind,ro "$folder"
done
exec "$@"
"""
SHIELDED = "DDPGEN_SHIELDED"  # set where the system's files are shielded


class Verdict(NamedTuple):
    """What became of a mutant: which test saw it, with which words, after how long."""

    word: str
    test: str
    said: str
    seconds: float


def drawn(name: str, seed: int, project: Path) -> list[Mutant]:
    """All mutants of a project in an order that follows from the seed alone.

    Each by itself: an edit of the template leaves the places of the other mutants as they are.
    """
    paths = sorted({path for pattern in FILES[name] for path in project.glob(pattern)})
    texts = {str(path.relative_to(project)): path.read_text() for path in paths}
    modules = {path: text for path, text in texts.items() if path.endswith(".py")}
    program = names.read(modules.values())
    found = [m for path, text in modules.items() for m in syntax.mutants(path, text, program)]
    for path in texts.keys() - modules.keys():
        found += shell.mutants(path, texts[path])
    return sorted(found, key=lambda mutant: _drawn_by(seed, mutant))


def _drawn_by(seed: int, mutant: Mutant) -> bytes:
    return hashlib.blake2b(f"{seed} {mutant.kind} {mutant.name}".encode()).digest()


def reasons() -> dict[str, str]:
    """The changes that change nothing that anyone could see, with the reasons."""
    table: dict[str, dict[str, str]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        f"{place}: {change}": why for place, rows in table.items() for change, why in rows.items()
    }


def tried(mutant: Mutant, project: Path, seen_by: seen.Seen | None) -> Verdict:
    """Put a mutant in, run the tests that run its lines until one fails, and take it out."""
    begin = time.monotonic()
    if mutant.name in reasons():
        return Verdict(EQUIVALENT, "", "", 0.0)
    tests = seen_by.by(mutant.path, mutant.lines) if seen_by else _launch_tests(mutant)
    if not tests:
        return Verdict(SURVIVED, "", "no test goes there", 0.0)
    file = project / mutant.path
    text = file.read_text()
    file.write_text(mutant.text)
    arguments = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", *tests]
    limit = 60 + 4 * sum(seen_by.seconds[test] for test in tests) if seen_by else 300
    try:
        outcome = run_tests(project, arguments, VARIABLES, seconds=limit)
    finally:
        file.write_text(text)
    word = KILLED if outcome.code else SURVIVED
    found = re.search(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", outcome.output, re.MULTILINE)
    test, said = (found[1], found[2] or "") if found else ("", outcome.output[-200:])
    return Verdict(word, test, said, time.monotonic() - begin)


def _launch_tests(mutant: Mutant) -> list[str]:
    """Those that run a launch file: by its name, or all of what other launch files use."""
    words = {"local": "machine", "slurm": "slurm", "ssh": "ssh", "pbs": "pbs", "lsf": "lsf"}
    own = [word for name, word in words.items() if Path(mutant.path).name.startswith(name)]
    return [LAUNCH_TESTS, *("-k" for _ in own), *own]


def written(name: str, folder: Path) -> Path:
    """The project, as it is generated."""
    project = folder / name
    template.write(PROJECTS[name], project)
    return project


def measure(name: str, count: int, seed: int, folder: Path) -> Iterator[dict[str, object]]:
    """Try so many mutants of a project; what is said of each is printed as it comes.

    Yields the results so far: a measure that is ended early has those.
    """
    project = written(name, folder)
    every = drawn(name, seed, project)
    seen_by = None if name == "launch" else seen.look(project)
    verdicts = []
    for number, mutant in enumerate(every[:count], 1):
        verdict = tried(mutant, project, seen_by)
        verdicts.append((mutant, verdict))
        line = f"{number:4} {verdict.word:10} {verdict.seconds:5.1f} s  {mutant.name}"
        print(f"{line}\n{'':23}{verdict.test} {verdict.said}"[:400], flush=True)
        files = {path: _of_file(path, verdicts) for path in sorted({m.path for m in every})}
        yield {"made": len(every), "files": files}


def _of_file(path: str, verdicts: list[tuple[Mutant, Verdict]]) -> dict[str, object]:
    own = [(mutant, verdict) for mutant, verdict in verdicts if mutant.path == path]
    counts = {w: sum(v.word == w for _, v in own) for w in (KILLED, SURVIVED, EQUIVALENT)}
    survivors = [[m.function, m.before, m.after] for m, v in own if v.word == SURVIVED]
    return counts | {"survivors": survivors}


def shield() -> None:
    """Start this program anew, where not even root can write to the system's files.

    A container without the right to mount is a shield by itself.
    """
    command = ["unshare", "--mount", "sh", "-euc", SHIELD, "sh"]
    may_write = os.geteuid() == 0 and not os.environ.get(SHIELDED)
    if may_write and subprocess.run([*command, "true"], check=False).returncode == 0:
        os.environ[SHIELDED] = "1"
        os.execvp(command[0], [*command, sys.executable, "-m", "mutants.systematic", *sys.argv[1:]])


def main(count: int, seed: int, projects: list[str]) -> None:
    print(f"seed {seed}, {count} mutants of each of {', '.join(projects)}", flush=True)
    for name in projects:
        results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            for found in measure(name, count, seed, Path(folder)):
                results[name] = {"seed": seed} | found
                text = json.dumps(results, indent=1, sort_keys=True)
                RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    shield()
    numbers = [int(argument) for argument in sys.argv[1:3]]
    main(*(numbers + [150, 0][len(numbers) :]), sys.argv[3:] or list(PROJECTS))
