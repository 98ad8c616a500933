"""Changes made by syntax are noticed, too: 40 of the default project here, more on the page."""

from pathlib import Path

import pytest

from mutants import names, seen, syntax, systematic

COUNT, SHARDS = 40, 8

PROGRAM = """
import torch

@torch.no_grad()
def share(size: int, rank: int, world_size: int) -> int:
    \"\"\"Say it.\"\"\"
    if rank >= size - 1:
        raise ValueError("no rank")
    return size // world_size + rank
"""


def test_changes_are_made_everywhere() -> None:
    found = syntax.mutants("share.py", PROGRAM, names.read([PROGRAM]))
    said = {(mutant.before, mutant.after) for mutant in found}
    assert {
        ("@torch.no_grad()", ""),
        ("rank >= size - 1", "(rank > size - 1)"),
        ("rank >= size - 1", "False"),
        ("rank", "world_size"),
        ("size - 1", "(size + 1)"),
        ("1", "2"),
        ('raise ValueError("no rank")', "pass"),
    } <= said
    assert all(mutant.function == "share" for mutant in found)
    assert not [before for before, _ in said if "Say" in before]


def test_equivalent_changes_are_there(tmp_path: Path) -> None:
    """A reason in the table belongs to a change that can still be made."""
    found = {
        mutant.name
        for project in systematic.PROJECTS
        for mutant in systematic.drawn(project, 0, systematic.written(project, tmp_path))
    }
    assert systematic.reasons().keys() <= found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_change_is_seen(shard: int, tmp_path: Path) -> None:
    project = systematic.written("plain", tmp_path)
    seen_by = seen.look(project)
    for mutant in systematic.drawn("plain", 0, project)[shard:COUNT:SHARDS]:
        verdict = systematic.tried(mutant, project, seen_by)
        assert verdict.word != systematic.SURVIVED, mutant.name
