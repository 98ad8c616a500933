"""What a project says about where its time goes."""

import gzip
import json
import re
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import forkserver, template
from product.programs import completed
from product.test_levers import ALL, PLAIN
from product.test_programs import settings
from product.training import train


@pytest.mark.parametrize("chosen", [PLAIN, ALL], ids=["plain", "all"])
def test_chosen_steps_are_recorded(chosen: Answers, tmp_path: Path) -> None:
    """A trace per rank and a summary whose shares add up; training is as without it."""
    answers = completed(chosen)
    template.write(answers, tmp_path)
    (tmp_path / "data").mkdir()
    overrides = settings(answers, tmp_path / "data")
    plain = train(tmp_path, 2, overrides)
    assert train(tmp_path, 2, [*overrides, "profile.steps=[3, 4]"], "recorded") == plain
    run = tmp_path / "recorded" / "run"
    for rank in (0, 1):
        with gzip.open(run / f"trace_rank{rank}.json.gz", "rt") as file:
            names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
        assert {"aten::mm", "gloo:all_reduce"} <= set(names)
        forwards = [name for name in names if name == "DistributedDataParallel.forward"]
        assert len(forwards) == 2 * (3 if answers["accumulation"] else 1), "of two steps"
    head, communication, nothing, *heaviest = (run / "profile.txt").read_text().splitlines()
    assert head.startswith("2 steps of")
    both, alone = map(float, re.findall(r"([\d.]+)%", communication))
    (none,) = map(float, re.findall(r"([\d.]+)%", nothing))
    assert 0 <= alone <= both
    assert 0 < both <= 100
    assert 0 <= none <= 100.1 - both  # as rounded
    assert len(heaviest) == 10


def test_steps_that_cannot_be_recorded_are_refused(tmp_path: Path) -> None:
    template.write(completed(PLAIN), tmp_path)
    for steps in ("[3]", "[4, 3]", "[0, 3]"):
        run = forkserver.train(tmp_path, 1, [f"profile.steps={steps}"])
        assert run.codes == [2]
        assert "must be empty or [first, last], from 1 on" in run.output
