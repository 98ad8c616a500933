"""What is left out where a machine is slow says so, and only that is left out."""

import subprocess
import sys
from pathlib import Path

from slowness import REST

TESTS = Path(__file__).resolve().parents[1]
FILE = "product/test_programs.py"


def skipped(*options: str) -> str:
    """What pytest says of two programs, in ranks that stay and in ranks of their own."""
    chosen = ["--programs=few", "-k", "mlp and (test_program or exit)", "--setup-only", "-q", "-rs"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", FILE, *chosen, *options]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_only_programs_of_thousands_are_left_out_and_counted() -> None:
    said = skipped("--minutes=1e-9")
    assert "SKIPPED [1]" in said
    assert "this machine is slow: 1e-09 minutes are over" in said
    assert "SKIPPED" not in skipped("--minutes=60")
    assert "this machine is slow: 0 minutes are over" in skipped(f"--minutes={-REST}")
