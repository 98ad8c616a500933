"""Models and data as users bring them: what ranks and workers would share wrongly is seen."""

from pathlib import Path

import pytest

from product import forkserver, template
from product.preloaded import run_tests
from product.programs import completed

GROUP = {"model": "custom", "batch_norm": "group"}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_files_that_a_worker_opens_are_its_own(tmp_path: Path) -> None:
    """Opened when the first samples are asked for, as HDF5 has to be: nobody asks before."""
    template.write(completed({"model": "custom", "checkpoint": True}), tmp_path)
    opened = """        if not hasattr(self, "opened_by"):
            self.opened_by = os.getpid()
        if self.opened_by != os.getpid():
            raise RuntimeError("opened by another process")
        rows = torch"""
    edit(tmp_path / "data.py", "        rows = torch", opened)
    edit(tmp_path / "data.py", "import math", "import math\nimport os")
    run = forkserver.train(tmp_path, 2, ["data.workers=2", "train.max_steps=3"])
    assert run.codes == [0, 0], run.output


MISTAKES = {
    "test_files_are_opened_by_who_reads": (
        "data.py",
        "        self.inputs, self.targets = inputs, targets",
        '        self.inputs, self.targets, self.file = inputs, targets, open("data.py")',
    ),
    "test_buffers_stay": (
        "model.py",
        "        x = self.stem(inputs)",
        "        x = self.stem(inputs)\n        self.seen += len(x)",
    ),
}


@pytest.mark.parametrize("test", MISTAKES)
def test_contract_names_what_is_not_shared(test: str, tmp_path: Path) -> None:
    """Files with one place for all workers, and buffers of which each rank has another."""
    template.write(completed(GROUP), tmp_path)
    head = "        self.head = nn.Linear(cfg.width, 1)\n"
    number = '        self.register_buffer("seen", torch.zeros(()))\n'
    edit(tmp_path / "model.py", head, head + number)
    edit(
        tmp_path / "model.py",
        "    def __init__(self, cfg",
        "    seen: Tensor\n\n    def __init__(self, cfg",
    )
    arguments = ["-q", "-p", "no:cacheprovider", "tests/test_contract.py"]
    outcome = run_tests(tmp_path, arguments)
    assert outcome.code == 0, outcome.output[-6000:]
    edit(tmp_path / MISTAKES[test][0], *MISTAKES[test][1:])
    outcome = run_tests(tmp_path, arguments)
    assert f"FAILED tests/test_contract.py::{test}" in outcome.output
    assert outcome.output.count("FAILED tests/") == 1, outcome.output[-6000:]
