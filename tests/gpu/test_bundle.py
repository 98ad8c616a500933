"""The bundle for GPU machines: made, carried away, and run on a CPU by the plainest Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from gpu import __main__ as bundle
from gpu import page

ONE = "mlp-fp16-checkpoint"


def test_bundle_runs_anywhere(tmp_path: Path) -> None:
    """Without pytest and ddpgen; a second run has nothing left to do; failures count."""
    bundle.make(tmp_path / "made")
    size = sum(path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file())
    assert size < bundle.MIB * 2**20
    folder = shutil.move(tmp_path / "made", tmp_path / "carried")
    only = {name for name in os.environ if name.startswith("PYTHON")}
    environment = {name: value for name, value in os.environ.items() if name not in only}

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "run.py", "--device=cpu", "--programs=all", f"--only={ONE}"]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((folder / "results.json").read_text())
    rows = [(row["mode"], row["outcome"]) for row in results["rows"] if row["program"] == ONE]
    assert rows == [("one rank", "passed"), ("two ranks, Gloo", "passed")]
    assert f"| `{ONE}` | passed | passed |" in page.text(results)

    results["rows"] = [row for row in results["rows"] if row["program"] == ONE]
    (folder / "results.json").write_text(json.dumps(results))
    listed = [p for p in json.loads((folder / "programs.json").read_text()) if p["name"] == ONE]
    (folder / "programs.json").write_text(json.dumps(listed))
    assert run().stdout == "2 rows, 0 failed: " + str(folder / "results.json") + "\n"
    results["rows"][0]["outcome"] = "failed"
    (folder / "results.json").write_text(json.dumps(results))
    (steps,) = {program["files"]["steps.py"] for program in listed}
    (folder / "files" / steps).write_text("raise SystemExit(3)")
    assert run().returncode == 1
