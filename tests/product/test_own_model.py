"""Models and data as users bring them: what ranks and workers would share wrongly is seen."""

from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import forkserver, template
from product.preloaded import run_tests
from product.programs import completed

GROUP: Answers = {"model": "custom", "batch_norm": "group"}


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


HEAD = "        self.head = nn.Linear(cfg.width, 1)\n"
STEM = "        x = self.stem(inputs)\n"
MISTAKES: dict[str, list[tuple[str, str, str]]] = {
    "test_files_are_opened_by_who_reads": [
        (
            "data.py",
            "inputs, targets\n\n",
            'inputs, targets\n        self.file = open("data.py")\n\n',
        ),
    ],
    "test_weights_can_be_trained": [
        ("model.py", HEAD, f"{HEAD}        self.kinds = nn.Embedding(2, 1, sparse=True)\n"),
        ("model.py", STEM, f"{STEM}        x = x + self.kinds((inputs[:, 0] > 0).long())\n"),
    ],
    "test_buffers_stay": [
        ("model.py", HEAD, f'{HEAD}        self.register_buffer("seen", torch.zeros(()))\n'),
        ("model.py", STEM, f"{STEM}        self.seen += len(x)\n"),
    ],
}


@pytest.mark.parametrize("test", MISTAKES)
def test_contract_names_what_ranks_cannot_share(test: str, tmp_path: Path) -> None:
    """Files with one place for all workers, sparse gradients, buffers that differ by rank."""
    template.write(completed(GROUP), tmp_path)
    for name, old, new in MISTAKES[test]:
        edit(tmp_path / name, old, new)
    arguments = ["-q", "-p", "no:cacheprovider", "tests/test_contract.py"]
    outcome = run_tests(tmp_path, arguments)
    assert f"FAILED tests/test_contract.py::{test}" in outcome.output, outcome.output[-6000:]
    assert "passed" in outcome.output
