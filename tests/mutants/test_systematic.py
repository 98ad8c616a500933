"""Changes made by syntax are noticed, too: 40 of the default project here, more on the page."""

import tomllib
from pathlib import Path

import pytest

from mutants import names, seen, shell, syntax, systematic

COUNT, SHARDS = 40, 4
SURVIVORS = Path(__file__).with_name("survivors.toml")
KNOWN = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivors"]

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


LAUNCH_FILE = """\
#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --signal=B:USR1@300
set -euo pipefail
begin() {
    if [[ -e $file ]] && ((tries >= 3)); then
        exec torchrun --nnodes="$NNODES" "$@"
    fi
}
# a comment
echo "train --fast"
"""


def test_launch_files_are_changed_everywhere() -> None:
    found = shell.mutants("launch/some.sh", LAUNCH_FILE)
    said = {(mutant.before, mutant.after) for mutant in found}
    assert {
        ("set -euo pipefail", ""),
        ("--signal=B:USR1@300", "--signal=B:USR1@30"),
        ("--signal=B:USR1@300", "--signal=B:TERM@300"),
        ("-e", "! -e"),
        ("&&", "||"),
        ("3));", "2));"),
        ('--nnodes="$NNODES"', ""),
        ('--nnodes="$NNODES"', '--nnodes="$NPROC"'),
        ('"$@"', "$@"),
        ("exec torchrun", "torchrun"),
    } <= said
    assert not [before for before, _ in said if "comment" in before or "fast" in before]
    assert ("--nodes=2", "--nodes=3") not in said, "users ask for what they need"
    assert {mutant.function for mutant in found} == {"", "begin"}


def test_equivalent_changes_are_there(tmp_path: Path) -> None:
    """A reason in the table belongs to a change that can still be made."""
    found = {
        mutant.name
        for project in systematic.PROJECTS
        for mutant in systematic.drawn(project, 0, systematic.written(project, tmp_path))
    }
    assert systematic.reasons().keys() <= found


def test_known_survivors_are_of_this_draw(tmp_path: Path) -> None:
    """None stays in the list when it can no longer be made."""
    drawn = systematic.drawn("plain", 0, systematic.written("plain", tmp_path))[:COUNT]
    assert set(KNOWN) <= {mutant.name for mutant in drawn}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_change_is_seen(shard: int, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--mutants") != "all":
        pytest.skip("a minute to see which test runs which line; --mutants=all runs these")
    project = systematic.written("plain", tmp_path)
    seen_by = seen.look(project)
    for mutant in systematic.drawn("plain", 0, project)[shard:COUNT:SHARDS]:
        if mutant.name not in KNOWN:
            verdict = systematic.tried(mutant, project, seen_by)
            assert verdict.word != systematic.SURVIVED, mutant.name
