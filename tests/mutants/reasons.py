"""Draws ddpgen/web/reasons.toml: the lines of generated projects whose reason is in the catalogue.

    python -m mutants.reasons    in the folder tests; after a change of the mistakes

A line has its reason in a row where a mistake of the row takes the line away, or changes the line.
The tests that notice a row's mistakes have their reason there, too.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from product import template

from ddpgen.web import difference
from mutants.table import BASES, MUTATIONS, Mutation

DRAWN = Path(__file__).resolve().parents[2] / "ddpgen" / "web" / "reasons.toml"
ROWS = Path(__file__).with_name("rows.toml")
HEAD = "# Drawn by tests/mutants/reasons.py: lines whose reason is in the catalogue.\n"
# Lines where no mistake is put: files, what stands in the line, and the rows.
ALSO = [
    ("engine/checkpoint.py", "all nodes must share run.folder", "K13"),
    ("engine/loading.py", "data.prepare(cfg)", "D13 D14"),
    ("launch/*", 'ddp.expected_world_size="', "D10"),
    ("launch/*", '"${program[@]}" --prepare-only "', "D14"),
    ("launch/slurm*", "PORT=$((20000 + ", "D11"),
    ("launch/*", "port=$((20000 + ", "D11"),
    ("launch/*", "trap 'told=1; ", "L3"),
    ("launch/*", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=", "L3"),
    ("launch/*", 'kill -"$2" $$', "L3"),
    ("launch/*", "terminationGracePeriodSeconds: ", "L3"),
    ("launch/*", "trap '' USR1", "L3"),
    ("launch/*", 'NODE_RANK="$rank"', "L2"),
    ("launch/again.sh", '"$JOB_FOLDER/AGAIN") > 20)); then', "L8"),
    ("launch/env.sh", 'export "${line?}"', "L7"),
    ("launch/env.sh", "load_env launch/nccl.debug.env", "L6"),
    ("launch/kubernetes/*", "nprocPerNode: ", "L1"),
    ("launch/kubernetes/*", "numProcPerNode: ", "L1"),
    ("launch/kubernetes/*", "backoffLimit: ", "L8"),
    ("launch/kubernetes/*", "maxRestarts: ", "L8"),
    ("launch/kubernetes/*", "restartPolicy: ", "L8"),
    ("launch/kubernetes/pod.sh", "exit 138", "L8"),
    ("launch/local.sh", "torchrun --standalone ", "D11"),
    ("launch/lsf.sh", "#BSUB -r", "L8"),
    ("launch/lsf.sh", '#BSUB -R "span[ptile=', "L1"),
    ("launch/lsf.sh", "brequeue ", "L8"),
    ("launch/nccl.debug.env", "=", "L5 L6"),
    ("launch/nccl.env", "=", "L5"),
    ("launch/node.sh", '--rdzv-conf="is_host=', "L2"),
    ("launch/node.sh", 'kill -USR1 "${workers[@]}"', "L3"),
    ("launch/node.sh", "trap stop TERM INT HUP", "L3"),
    ("launch/node.sh", "watch &", "L4"),
    ("launch/pbs.sh", "#PBS -l select=", "L1"),
    ("launch/pbs.sh", "#PBS -r y", "L8"),
    ("launch/pbs.sh", "qrerun ", "L8"),
    ("launch/skypilot.sh", "PORT=$((20000 + ", "D11"),
    ("launch/skypilot.sh", "NODE_RANK=$SKYPILOT_NODE_RANK", "L2"),
    ("launch/skypilot.yaml", "recover_on_exit_codes: ", "L8"),
    ("launch/slurm*", "#SBATCH --gpus-per-node=", "D6"),
    ("launch/slurm*", "#SBATCH --signal=", "L3"),
    ("launch/slurm*", "#SBATCH --requeue", "L3 L8"),
    ("launch/slurm*", "export NNODES=$SLURM_JOB_NUM_NODES", "L1"),
    ("launch/slurm*", "export NPROC=", "L1"),
    ("launch/slurm*", "srun --kill-on-bad-exit=1 --wait=60", "L4"),
    ("launch/slurm*", "scontrol requeue ", "L8"),
    ("launch/slurm_rank.sh", "export RANK=$SLURM_PROCID", "L2"),
    ("launch/slurm_rank.sh", "export LOCAL_RANK=$SLURM_LOCALID", "D4"),
    ("launch/ssh.sh", "-o ServerAliveInterval=", "L4"),
    ("launch/ssh.sh", "wait -n ", "L4"),
    ("launch/ssh.sh", "printf -v line '%q ' ", "L7"),
    ("model.py", "F.linear(self.norm(x), filled)", "G14"),
]


def drawn() -> str:
    """Return the file as it should be."""
    lines = [(m.path, line, m.pitfall) for m in MUTATIONS for line in changed(m)]
    parts = [(path, part, row) for path, part, rows in ALSO for row in rows.split()]
    noticed = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    tests = [(name, row) for row, names in noticed.items() for name in names]
    tables = [
        *_tables("lines", lines),
        *_tables("parts", parts),
        _table("tests", _grouped(tests)),
    ]
    return "\n".join([HEAD, *tables])


def _tables(kind: str, places: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    by_path: dict[str, list[tuple[str, str]]] = {}
    for path, text, row in places:
        by_path.setdefault(path, []).append((text, row))
    for path, found in sorted(by_path.items()):
        yield _table(f"{kind}.{json.dumps(path)}", _grouped(found))


def _table(name: str, entries: Mapping[str, Sequence[str]]) -> str:
    lines = [f"{json.dumps(text)} = {json.dumps(rows)}" for text, rows in entries.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text, row in dict.fromkeys(pairs):
        found.setdefault(text, []).append(row)
    return found


def changed(mutation: Mutation) -> list[str]:
    """Return the lines that a mistake takes away or changes, without what only holds brackets."""
    text = template.text(mutation.path, BASES[mutation.base]) or ""
    rows = difference.rows(text, text.replace(mutation.old, mutation.new))
    gone = [line.strip() for mark, line in rows if mark == difference.GONE]
    return [line for line in gone if re.search(r"\w\W+\w", line)]


if __name__ == "__main__":
    DRAWN.write_text(drawn(), encoding="utf-8")
