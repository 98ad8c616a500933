"""What a static page brings along suffices: Python and its standard library, and nothing else."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

from ddpgen.web import interface

ROOT = Path(__file__).resolve().parents[2]
# As the worker of the browser does it.
ALONE = """
import json, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [sys.argv[1]]
from ddpgen.web import interface
page = interface.start()
*_, last = page.prepared()
for name, arguments in json.loads(sys.argv[2]):
    print(page.call(name, json.dumps(arguments)))
"""


def test_parts_of_a_static_page_suffice(tmp_path: Path) -> None:
    build = runpy.run_path(str(ROOT / ".ci" / "page.py"))
    given = {"model": "gpt", "clusters": "ssh,slurm", "nodes": "2"}
    calls = [
        ("project", {"given": given, "base": {}}),
        ("update", {"given": given, "since": "0.3.0", "to": interface.start().tag[1:]}),
    ]
    build["releases"].prepare(tmp_path / "work", tmp_path / "kept")
    releases = dict(build["below"](tmp_path / "kept", "ddpgen/_releases"))
    for name, (mode, content) in (build["needed"]() | releases).items():
        file = tmp_path / "python" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ALONE, tmp_path / "python", json.dumps(calls)],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    assert done.returncode == 0, done.stderr
    page = interface.start()
    for line, (name, arguments) in zip(done.stdout.splitlines(), calls, strict=True):
        assert json.loads(line) == json.loads(str(page.call(name, json.dumps(arguments))))
