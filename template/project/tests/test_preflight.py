"""The checks before a long job, on two real ranks."""

import dataclasses
from pathlib import Path

import common
import config
import distributed
import preflight
import probes
import ranks


def facts(cfg: config.Config) -> probes.Facts:
    """What this rank finds."""
    with distributed.session(cfg.ddp) as place:
        return probes.collect(cfg, place)


def verdicts(found: list[probes.Facts], cfg: config.Config) -> dict[str, str]:
    return {check.name: check.verdict for check in preflight.compare(found, cfg)}


def test_two_ranks_find_nothing_wrong(tmp_path: Path) -> None:
    cfg = common.settings(tmp_path, "ddp.expected_world_size=2")
    found = ranks.run(2, facts, cfg)
    assert [fact.rank for fact in found] == [0, 1]
    assert all(fact.reduces and fact.averages for fact in found)
    assert "FAILED" not in verdicts(found, cfg).values()


def test_each_difference_between_ranks_is_named(tmp_path: Path) -> None:
    cfg = common.settings(tmp_path)
    one, other = ranks.run(2, facts, cfg)
    for name, field, value in [
        ("versions", "versions", "torch 1.0"),
        ("data", "data", "3 + 1 samples"),
        ("data cannot be opened", "data", f"{probes.NO_DATA}: missing"),
        ("host cannot be reached", "address", f"{probes.NO_WAY} to head"),
        ("all-reduce is wrong", "reduces", False),
        ("gradients are not averaged", "averages", False),
    ]:
        changed = [one, dataclasses.replace(other, **{field: value})]
        assert verdicts(changed, cfg)[name] == "FAILED"
    same_gpu = [dataclasses.replace(fact, device_id="GPU-1") for fact in (one, other)]
    assert verdicts(same_gpu, cfg)["GPU used twice"] == "FAILED"
    other_gpu = dataclasses.replace(other, model="another")
    assert verdicts([one, other_gpu], cfg)["GPU models"] == "note"
