"""Which tests of a generated project run which of its lines: found by running them all, once."""

import hashlib
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import filelock
from product.preloaded import run_tests

from mutants import noting

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "mutants"  # for as long as the project is the same
SLOW = 2.0  # seconds
NOTE = "import noting\n\nnoting.start()\n"


class Seen(NamedTuple):
    """The tests of a project, the quickest first: their seconds, and who runs which line."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, set[str]]]
    inside: dict[str, set[int]]  # of each file, the lines that run while it is imported

    def by(self, path: str, lines: range) -> list[str]:
        """The tests that some of these lines can make fail; all for what is run by an import."""
        tests = set[str]().union(*(self.lines.get(path, {}).get(n, set()) for n in lines))
        if not self.inside.get(path, set()).isdisjoint(lines):
            tests |= self.seconds.keys()
        return [test for test in self.seconds if test in tests]


def look(project: Path) -> Seen:
    """Run a project's tests with every line noted, unless that was done before."""
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{_digest(project)}.json"
    with filelock.FileLock(kept.with_suffix(".lock")):
        if not kept.exists():
            _note(project, kept)
    return _read(json.loads(kept.read_text()))


def _digest(project: Path) -> str:
    files = sorted(f for f in project.rglob("*.py") if "__pycache__" not in f.parts)
    content = [f.read_bytes() for f in [Path(noting.__file__), project / "config.toml", *files]]
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def _note(project: Path, kept: Path) -> None:
    notes = kept.with_suffix("")
    shutil.rmtree(notes, ignore_errors=True)
    notes.mkdir()
    package = project / "engine" / "__init__.py"
    text = package.read_text()
    package.write_text(text + NOTE)
    outcome = run_tests(
        project,
        ["-q", "-p", "no:cacheprovider", "-p", "noting"],
        {noting.FOLDER: str(notes), "WANDB_MODE": "offline"},
        [str(HERE)],
    )
    package.write_text(text)
    assert outcome.code == 0, outcome.output[-4000:]
    lines = "".join(path.read_text() for path in sorted(notes.glob("*.txt")))
    kept.write_text(json.dumps(json.loads((notes / noting.TESTS).read_text()) | {"lines": lines}))
    shutil.rmtree(notes)


def _read(kept: dict[str, object]) -> Seen:
    seconds, fixtures, text = kept["seconds"], kept["fixtures"], kept["lines"]
    assert isinstance(seconds, dict)
    assert isinstance(fixtures, dict)
    users = defaultdict(set)
    for test, names in fixtures.items():
        for name in [f"fixture {name}" for name in names] + [test]:
            users[name].add(test)
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    inside: dict[str, set[int]] = defaultdict(set)
    for row in str(text).splitlines():
        name, path, number = row.split("\t")
        lines[path][int(number)] |= users[name]
        if name == "start":
            inside[path].add(int(number))
    of_file = defaultdict(float)
    for test, time in seconds.items():
        of_file[test.partition("::")[0]] += time
    # A slow test is run when all others of the project have seen nothing.
    order = sorted(seconds, key=lambda t: (seconds[t] > SLOW, of_file[t.partition("::")[0]]))
    return Seen({test: seconds[test] for test in order}, lines, inside)
