"""The bundle for GPU machines: made, carried away, and run on a CPU by the plainest Python."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from product.combinations import identifier

from gpu import __main__ as bundle
from gpu import page


def test_bundle_runs_anywhere(tmp_path: Path, forked: Path) -> None:
    """Without pytest and ddpgen; a second run has nothing left to do; failures count."""
    rows = [row for row in bundle.few() if row["model"] == "mlp"]
    one = next(identifier(row) for row in rows if row["amp"] == "fp16")
    bundle.make(tmp_path / "made", rows)
    folder = shutil.move(tmp_path / "made", tmp_path / "carried")
    only = {name for name in os.environ if name.startswith("PYTHON")}
    environment = {name: value for name, value in os.environ.items() if name not in only}

    def run(only: str = one) -> subprocess.CompletedProcess[str]:
        command = [str(forked / "python"), "run.py", "--device=cpu", "--own-tests"]
        command += ["--workers=1", f"--only={only}"]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((folder / "results.json").read_text())
    found = [(row["mode"], row["outcome"]) for row in results["rows"] if row["program"] == one]
    modes = ("one rank", "two ranks, Gloo", "one rank, with workers")
    assert found == [(mode, "passed") for mode in modes]
    assert f"| `{one}` | passed | passed | passed |" in page.text(results)

    results["rows"] = [row for row in results["rows"] if row["program"] == one]
    (folder / "results.json").write_text(json.dumps(results))
    listed = [p for p in json.loads((folder / "programs.json").read_text()) if p["name"] == one]
    (folder / "programs.json").write_text(json.dumps(listed))
    said = f"3 rows, 0 failed, 0 programs left for time: {folder / 'results.json'}\n"
    assert run().stdout == said
    results["rows"][0]["outcome"] = "failed"
    (folder / "results.json").write_text(json.dumps(results))
    (steps,) = {program["files"]["steps.py"] for program in listed}
    (folder / "files" / steps).write_text("raise SystemExit(3)")
    assert run().returncode == 1

    tests = folder / "projects" / "whole" / "tests"
    tests.mkdir(parents=True)
    (tests / "conftest.py").touch()
    (tests / "test_it.py").write_text("def test_it():\n    assert not 'on purpose'\n")
    (folder / "results.json").unlink()
    assert run("whole").returncode == 1
    (row,) = json.loads((folder / "results.json").read_text())["rows"]
    assert (row["program"], row["mode"], row["outcome"]) == ("whole, whole", "own tests", "failed")
    assert row["why"].startswith("FAILED tests/test_it.py::test_it")
