"""python -m gpu FOLDER: a folder that trains generated programs on any machine with GPUs.

It holds what a machine without network, pytest or ddpgen needs: every distinct text of every
training file once, which program has which, data that is prepared, and a runner. Where pytest is
installed, whole projects run their own tests and tools, too.
"""

import argparse
import ast
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import own_tests
from product import programs, template, test_programs
from product.combinations import identifier, pairs

from ddpgen.asking.question import Answers

HERE = Path(__file__).parent
MIB = 40  # what the tools that carry a bundle to another machine let through
# What a GPU machine without network is likely to have; FSDP has tests of its own.
MOST = own_tests.MOST | {"tracker": "tensorboard"}
SHARDED = {
    "model": "gpt",
    "sharding": "fsdp",
    "amp": "bf16",
    "accumulation": True,
    "activation_checkpointing": True,
    "saves": "background",
    "tools": ["preflight", "memory", "profile", "predict", "checkpoints"],
    "watch": ["ranks", "speed", "files"],
}
# Shares that each rank writes and reads itself, and a watch that skips steps and goes back.
FOLDERS = {**SHARDED, "saves": "shards", "tools": [], "watch": ["spikes"]}
CARRIED = ("__init__.py", "forkserver.py", "frozen.py", "training.py")


def few() -> list[Answers]:
    """Programs with all pairs of values."""
    return pairs(programs.cores())


def make(folder: Path, rows: list[Answers]) -> None:
    """Write a bundle of these programs into an empty folder."""
    (folder / "files").mkdir(parents=True)
    (folder / "sources").mkdir()
    shutil.copy(ast.__file__, folder / "sources")  # its path differs from machine to machine
    (folder / "product").mkdir()
    for name in CARRIED:
        shutil.copy(HERE.parent / "product" / name, folder / "product" / name)
    shutil.copy(HERE / "runner.py", folder / "run.py")
    pairwise, listed = few(), []
    for answers in rows:
        texts = {path: template.text(path, answers) for path in programs.training_files()}
        found = {path: text for path, text in texts.items() if text is not None}
        listed.append(
            {
                "name": identifier(answers),
                "answers": answers,
                "pairs": answers in pairwise,
                "overrides": overrides(answers),
                "needs": needs(found),
                "files": {path: keep(folder, text) for path, text in found.items()},
            }
        )
    (folder / "programs.json").write_text(json.dumps(listed))
    for answers in {row["model"]: row for row in rows}.values():
        prepare(folder, answers)


def projects(folder: Path) -> None:
    """Write whole projects, each in a folder of its own."""
    found = own_tests.projects(MOST) | {"sharded": SHARDED, "folders": FOLDERS}
    for name, answers in found.items():
        template.write(answers, folder / name.partition(",")[0])


def keep(folder: Path, text: str) -> str:
    """Put a text among the bundle's files; returns its name there."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    (folder / "files" / name).write_text(text)
    return name


def overrides(answers: Answers) -> list[str]:
    """What makes the program's run small; "{here}" stands for the bundle's folder."""
    texts = test_programs.settings(answers, Path("{here}/data"))
    return [text.replace(ast.__file__, "{here}/sources/ast.py") for text in texts]


def needs(texts: dict[str, str]) -> list[str]:
    """The packages beside torch that a program's files import as soon as they are imported."""
    own = {path.split("/", maxsplit=1)[0].removesuffix(".py") for path in texts}
    trees = [ast.parse(text) for path, text in texts.items() if path.endswith(".py")]
    nodes = [node for tree in trees for node in tree.body]
    names = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {part.name for node in nodes if isinstance(node, ast.Import) for part in node.names}
    packages = {name.split(".", maxsplit=1)[0] for name in names}
    return sorted(packages - own - sys.stdlib_module_names - {"torch"})


def prepare(folder: Path, answers: Answers) -> None:
    """Prepare a model's data here, where the packages are that its sources need."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        project = Path(temporary) / "project"
        template.write(answers, project)
        command = [sys.executable, "train.py", "--prepare-only"]
        command += [text.format(here=folder.resolve()) for text in overrides(answers)]
        subprocess.run(command, cwd=project, check=True)


def main() -> int:
    """Make it, and say what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="is replaced")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    # Only what needs nothing but torch: a tracker's rank 0 would need its library.
    make(folder, rows := programs.cores())
    projects(folder / "projects")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    print(f"{folder}: {len(rows)} programs, {size:.1f} MiB\non a GPU machine: python run.py")
    return int(size > MIB)


if __name__ == "__main__":
    sys.exit(main())
