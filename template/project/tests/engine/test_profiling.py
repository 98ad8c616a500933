"""What `profile.steps` records, whichever part of the run this process trains."""

import contextlib
import io
from pathlib import Path

import pytest
import torch

from engine import distributed, profiling, timeline
from support import common, processes

LAST = 9  # step of the run
PARTS = {
    "whole": (0, LAST, "3 steps of "),
    "resumed inside": (4, LAST, "2 steps of "),
    "stopped inside": (0, 4, "1 step of "),
    "resumed behind": (6, LAST, "lie before step 6: nothing is recorded"),
    "stopped before": (0, 3, "the run ended before step 4: nothing is recorded"),
}


def record(folder: Path, done: int, until: int) -> str:
    """Compute a few steps; returns what was said."""
    cfg = common.settings(folder, "profile.steps=[4, 6]", "ddp.device=cpu")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), distributed.session(cfg.ddp) as process:
        recorder = profiling.Recorder(cfg.profile, folder, process, done)
        for step in range(done + 1, until + 1):
            recorder.before(step)
            distributed.sum_over_ranks(torch.ones(8, 8) @ torch.ones(8, 8))
            recorder.after(step)
        recorder.finish()
    return said.getvalue()


@pytest.mark.parametrize("part", PARTS)
def test_steps_of_a_part_are_recorded(part: str, tmp_path: Path) -> None:
    """Every rank leaves a trace, rank 0 alone a summary; no part of a run is an error."""
    done, until, sentence = PARTS[part]
    first, second = processes.run(2, record, tmp_path, done, until)
    assert sentence in first
    assert second == ""
    traces = sorted(path.name for path in tmp_path.glob("trace_*"))
    if "nothing" in sentence:
        assert traces == []
    else:
        assert traces == ["trace_rank0.json.gz", "trace_rank1.json.gz"]
        summary = (tmp_path / profiling.SUMMARY).read_text()
        assert summary in first
        assert "aten::mm" in summary
        assert any(name in summary for name in timeline.COMMUNICATION)
