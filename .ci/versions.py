"""The own tests of generated projects with the oldest PyTorch of README, and with the newest.

Each has a virtual environment in build/versions/. Writes docs/versions.md.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "versions"
PAGE = ROOT / "docs" / "versions.md"
WANTED = {"oldest": "torch==2.9.*", "newest": "torch"}
VERSIONS = "import platform, torch; print(torch.__version__, platform.python_version())"
HEAD = """\
# Versions of PyTorch

Written by `make versions`; nothing here was typed by hand. Projects that hold every pair of answers
ran their own tests, as users run them.

| PyTorch | Python | projects | passed | failed |
|---|---|---|---|---|
"""


def main() -> int:
    """Return the number of versions with which a project failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [tested(name, wanted) for name, wanted in WANTED.items()]
    PAGE.write_text(HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    return sum(row[-1] != "0" for row in rows)


def tested(name: str, wanted: str) -> list[str]:
    """Test with one version; returns its row of the page."""
    python = FOLDER / name / "bin" / "python"
    others = FOLDER / "constraints.txt"
    others.write_text("".join(without_torch()), encoding="utf-8")
    if not python.exists():
        run(sys.executable, "-m", "venv", FOLDER / name)
        run(python, "-m", "pip", "install", "--quiet", "pip>=25.1")
    pip = (python, "-m", "pip", "install", "--quiet", "--constraint", others)
    run(*pip, "--upgrade", wanted)
    # Once more with what needs torch, so that nothing changes torch's version.
    run(*pip, wanted, "--editable", ".", "--group", "dev")
    report = FOLDER / f"{name}.xml"
    report.unlink(missing_ok=True)
    tests = ("-m", "pytest", "-rs", "tests/product/test_own_tests.py", "--own-tests=pairs")
    workers = f"--numprocesses={os.environ.get('WORKERS', '2')}"
    run(python, *tests, workers, f"--junitxml={report}", check=False)
    counts = dict(re.findall(r'\b(errors|failures|tests)="(\d+)"', report.read_text("utf-8")))
    count, failed = int(counts["tests"]), int(counts["failures"]) + int(counts["errors"])
    versions = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    torch, language = versions.stdout.split()
    return [torch, language, str(count), str(count - failed), str(failed)]


def without_torch() -> Iterator[str]:
    """The pinned versions of everything else."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return (line for line in lines if not line.startswith(("torch==", "triton==")))


def run(*command: str | Path, check: bool = True) -> None:
    """Run a command in the checkout."""
    subprocess.run([str(part) for part in command], cwd=ROOT, check=check)


if __name__ == "__main__":
    sys.exit(main())
