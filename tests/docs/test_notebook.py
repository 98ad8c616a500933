"""The notebook's cells are run in a kernel, as Jupyter does, and print what it shows."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

from docs.page import DOCS, missing

NOTEBOOK = DOCS / "notebook.ipynb"
END = 300  # seconds; a busy machine


def shown(cell: dict[str, Any]) -> tuple[str, ...]:
    """The lines that the notebook shows below a cell."""
    text = "".join("".join(output["text"]) for output in cell["outputs"])
    return tuple(text.splitlines())


def test_cells_start_two_ranks(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    # The kernel leaves the output of ranks alone if it believes to be part of a test.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {"OMP_NUM_THREADS": "1", "TERM": "dumb"}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    manager, client = start_new_kernel(cwd=str(tmp_path), env=env)
    try:
        for cell in cells:
            if cell["cell_type"] != "code":
                continue
            said: list[str] = []

            def note(message: dict[str, Any], said: list[str] = said) -> None:
                content = message["content"]
                said.append(content.get("text", "") or "\n".join(content.get("traceback", [])))

            source = "".join(cell["source"])
            reply = client.execute_interactive(source, timeout=END, output_hook=note)
            output = "".join(said)
            assert reply["content"]["status"] == "ok", output
            assert missing(shown(cell), output) is None, f"{source}\n{output}"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    manifests = [*tmp_path.glob("my-notebook/runs/first/checkpoints/*.json")]
    assert [json.loads(path.read_text())["world_size"] for path in manifests] == [2]
