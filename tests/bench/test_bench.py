"""The benchmark measures what it says; no test here looks at a time."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from product import template

from bench import answering, cases, figures, own_tests, page, saving, tree

MLP = dataclasses.replace(cases.quick(cases.CPU[0]), blocks=2)
FSDP = dataclasses.replace(cases.CPU[4], block=cases.LOG_EVERY, blocks=1, evaluated=1, repeats=1)
PRODUCTS = {
    "products": [1.0, 1.0],
    "flops of a burst": [1e9],
    "flops": [1e6],
    "parameters": [1e6],
    "units of a sample": [1],
}


@pytest.fixture
def _ranks_are_forked(forked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(forked / "python"))


@pytest.mark.usefixtures("_ranks_are_forked")
def test_generated_project_beside_plain_loop(tmp_path: Path) -> None:
    """The smallest case: both report all figures, the host never waits (O4), a page is made."""
    project = tmp_path / "project"
    template.write(MLP.answers, project)
    overrides = tree.task_of("plain", MLP, 1, project).overrides
    prepare = [sys.executable, "train.py", "--prepare-only", *overrides]
    subprocess.run(prepare, cwd=project, check=True)
    sides = ["generated", "plain", "again", "bare", "searched", "parallel"]
    times, failures = tree.measure(MLP, sides, project, 2, tmp_path / "runs")
    assert not failures, "\n".join(failures.values())

    wanted = dict.fromkeys(("block", "processor"), MLP.blocks)
    wanted |= dict.fromkeys(("evaluation", "save", "load"), MLP.repeats)
    wanted |= dict.fromkeys(("start-up", "first step", "memory", "reads"), 1)
    # DataParallel only trains.
    trained = {name: n for name, n in wanted.items() if name not in ("evaluation", "save", "load")}
    for side in sides:
        expected = trained if side == "parallel" else wanted
        assert {name: len(found) for name, found in times[side].items()} == expected
    assert "times its processor time" in page.searching({"words": "MLP", "times": times})
    assert times["generated"]["reads"] == [0], "in the whole loop, between two log points"

    rows = rows_of_page({**times, "matmul": PRODUCTS}, tmp_path)
    assert len(rows) == 2, "training, saving"
    assert " 1.00 (1.00…1.00) |" in rows[0]
    assert (tmp_path / "bench-cpu-speed.png").stat().st_size > 1000
    few = {side: times[side] for side in ("generated", "plain")}
    assert rows_of_page({**few, "matmul": PRODUCTS}, tmp_path), "no page of --sides generated plain"


@pytest.mark.usefixtures("_ranks_are_forked")
def test_sides_that_share_out_save_shares(tmp_path: Path) -> None:
    """With FSDP2 both write folders, and neither waits for the device between two log points."""
    assert FSDP.sharded
    project = tmp_path / "project"
    template.write(FSDP.answers, project)
    overrides = tree.task_of("plain", FSDP, 2, project).overrides
    prepare = [sys.executable, "train.py", "--prepare-only", *overrides]
    subprocess.run(prepare, cwd=project, check=True)
    times, failures = tree.measure(FSDP, ["generated", "plain"], project, 2, tmp_path / "runs")
    assert not failures, "\n".join(failures.values())
    for side, found in times.items():
        assert len(found["block"]) == len(found["save"]) == len(found["load"]) == 1
        assert found["reads"] == [0], side
        assert [*tmp_path.glob(f"runs/*-{side}/**/__1_0.distcp")], "rank 1's share"


def test_large_saves_are_measured_by_all_ways(tmp_path: Path) -> None:
    """Each save but the first counts, and the goals follow from the shares of the medians."""
    times = saving.measure(parameters=16_000, count=3, folder=tmp_path)
    assert {len(found) for found in times.values()} == {2}
    assert all(min(times[way]) > 0 for way in saving.WAYS)
    assert all(times[f"{way}, steps beside"] == [0, 0] for way in (saving.PLAIN, saving.BLOCKING))
    device = {"cases": [], "commands": {}, "no_commands": "", "own tests": {}}
    device[saving.NAME] = times | {saving.BACKGROUND: [0.1, 0.3], saving.BLOCKING: [1.0, 1.5]}
    goals = {goal.words: goal for goal in figures.goals(device)}
    assert goals["a background save holds up ≤ 0.1 × a blocking one"].figure == "0.16"
    assert "generated project, in background | 0.200 s | 0.16 |" in page.stalls(device[saving.NAME])


def rows_of_page(times: dict[str, Any], folder: Path) -> list[str]:
    """The lines about the plain loop on the page of one case."""
    case = {
        "name": "mlp",
        "words": "MLP",
        "micro_batch": MLP.micro_batch,
        "precision": "off",
        "ranks": 2,
        "block": MLP.block,
        "starts": MLP.starts,
        "accumulate": 1,
        "load": 0.0,
        "left_out": {},
        "times": times,
    }
    machine = {"device": "a CPU", "cores": 2, "versions": {"torch": "2"}}
    device = {**machine, "cases": [case], "commands": {}, "no_commands": "not tried"}
    device["own tests"] = {own_tests.DEFAULT: [31.0]}
    device["answers"] = {answering.HERE: [0.03, 0.05], answering.ANYWHERE: [0.2]}
    page.write(json.loads(json.dumps({"cpu": device})), folder)
    text = (folder / "bench.md").read_text(encoding="utf-8")
    assert "| a goal for GPUs | not measured |" in text
    assert "own tests of the default project ≤ 30 s | 31.00 | **not met** |" in text
    assert "the page of `ddpgen web` ≤ 0.1 s | 0.04 | met |" in text
    assert "the static page ≤ 0.1 s | 0.20 | **not met** |" in text
    assert "| an answer, `ddpgen web` | 2 | 40 ms (35…45) |" in text
    return [line for line in text.splitlines() if line.startswith("| plain loop |")]


def test_ratios_are_of_the_same_round() -> None:
    """A machine that is twice as slow for a while changes no ratio."""
    assert figures.ratio([2.0, 4.0, 2.0], [1.0, 2.0, 1.0]) == figures.Ratio(2.0, 2.0, 2.0)


@pytest.mark.parametrize(("found", "met"), [(0.5, False), (1.0, True), (None, None)])
def test_goals_are_computed(found: float | None, met: bool | None) -> None:
    assert figures.at_least("", found, 0.99).met is met
    assert figures.at_most("", None if found is None else -found, -0.99).met is met


def test_side_that_fails_is_left_out(tmp_path: Path) -> None:
    """Its last words say why; the others go on."""
    times, failures = tree.measure(MLP, ["nothing"], tmp_path, 1, tmp_path / "runs")
    assert times == {}
    assert "No module named bench.sides.nothing" in failures["nothing"]
