"""Tensors that stay on the CPU are named, with the line that made them, before there is a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.rendering.render import render

# A mistake: what an edit of model.py replaces, by what, and what preflight says of that.
LOSS = (
    "    return F.cross_entropy(outputs, targets, ",
    "    weights = torch.ones(10)\n    return F.cross_entropy(outputs, targets, weights, ",
    "a tensor of shape [10] is on cpu, made in model.py:{}: weights = torch.ones(10), meets",
)
FORWARD = (
    "        x = self.stem(inputs)\n",
    "        x = self.stem(inputs)\n        one = torch.ones(x.shape[1])\n        x = x + one\n",
    "a tensor of shape [256] is on cpu, made in model.py:{}: one = torch.ones(x.shape[1]), meets",
)
CRITERION = (
    '    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")',
    "    return SUM(outputs, targets)\n\n\nSUM = nn.NLLLoss(torch.ones(10), reduction='sum')",
    "model.SUM.weight is on cpu, meets",
)
LIST = (
    "nn.ModuleList(Block(cfg.width, cfg.dropout) for _ in range(cfg.depth))",
    "[Block(cfg.width, cfg.dropout) for _ in range(cfg.depth)]",
    "blocks[1].narrow.weight is on cpu, made in model.py",
)


@pytest.mark.parametrize("mistakes", [[], [LOSS, FORWARD], [CRITERION, LIST]])
def test_preflight_names_what_stays_on_the_cpu(
    mistakes: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    """As a new user tries it: one command, no ranks, no GPU."""
    project = tmp_path / "project"
    render({"tools": ["preflight"]}, project)
    source = project / "model.py"
    text = source.read_text().replace("import torch.nn", "import torch\nimport torch.nn", 1)
    for before, after, _ in mistakes:
        assert before in text
        text = text.replace(before, after)
    source.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tools.preflight", "ddp.device=cpu"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == bool(mistakes), done.stdout + done.stderr
    for _, after, words in mistakes:
        line = text[: text.index(after) + 1].count("\n") + 1 + after.startswith("        x")
        assert f"FAILED  placement                    {words.format(line)}" in done.stdout
    assert ("ok      placement" in done.stdout) == (not mistakes)
