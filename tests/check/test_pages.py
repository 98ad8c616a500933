"""The pages' examples are tests: what is wrong is reported at its line, what is right is not."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ddpgen.checking import driver, pages
from ddpgen.checking.rules import RULES

CATALOGUE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"
# What the pages leave out.
IMPORTS = """\
import json, os, random, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from itertools import islice
import filelock, torch, torchvision, wandb
import numpy as np
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import (
    DataLoader, DistributedSampler, IterableDataset, RandomSampler, Subset, TensorDataset,
    get_worker_info,
)
from torchvision import transforms
"""
# A project as a newer version wrote it; files of its user use names of older ones.
PROJECT = {
    ".copier-answers.yml": "_commit: v0.5.0\n_src_path: git+ddpgen://template\n",
    "data.py": "def counts(targets):\n    return targets != 0\n",
    "engine/loading.py": "class StepBatch:\n    pass\n\n\ndef step_batches():\n    pass\n",
}
FILES = {"python": ("train.py", IMPORTS), "bash": ("job.sh", ""), "yaml": ("job.yaml", "")}
MARK = re.compile(r"  # <-- (\w+)$", re.MULTILINE)
IDS = sorted({rule.id for rule in RULES})


class Example(NamedTuple):
    id: str
    wrong: bool
    language: str
    text: str


def examples() -> Iterator[Example]:
    for name in IDS:
        page = (pages.folder() / f"{name}.md").read_text()
        _, wrong, right = re.split(r"^## (?:Wrong|Right)$", page, flags=re.MULTILINE)
        for part in (wrong, right):
            for language, text in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL):
                yield Example(name, part is wrong, language, text)


def rows() -> dict[str, str]:
    """The catalogue: id -> guard."""
    row = re.compile(r"^\| ([A-Z]\d+) \| .+ \| ([CTSR -]+) \| .+ \|$", re.MULTILINE)
    return dict(row.findall(CATALOGUE.read_text()))


def label(example: Example) -> str:
    return f"{example.id} {'wrong' if example.wrong else 'right'}"


@pytest.mark.parametrize("example", list(examples()), ids=label)
def test_example(example: Example, tmp_path: Path) -> None:
    """Nothing but the marks is reported, of any rule."""
    content = FILES[example.language][1] + example.text
    expected = [
        (number, mark[1])
        for number, line in enumerate(content.splitlines(), 1)
        if (mark := MARK.search(line))
    ]
    assert bool(expected) == example.wrong
    assert {id_ for _, id_ in expected} <= {example.id}
    write(example, tmp_path)
    found = driver.check([tmp_path]).findings
    assert [(f.line, f.id) for f in found] == expected, found


def write(example: Example, folder: Path) -> None:
    """An example with what is around it."""
    name, before = FILES[example.language]
    (folder / "train.py").touch()  # the program that launch files start
    (folder / name).write_text(MARK.sub("", before + example.text))
    if example.id == "U1":
        for path, text in PROJECT.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)


def test_every_page_has_rules_and_every_rule_a_page() -> None:
    assert sorted(p.stem for p in pages.folder().glob("[A-Z]*.md")) == IDS


def test_every_way_to_say_it_is_in_an_example(tmp_path: Path) -> None:
    """No rule without an example that it reports."""
    reported = set()
    for number, example in enumerate(examples()):
        if example.wrong:
            folder = tmp_path / str(number)
            folder.mkdir()
            write(example, folder)
            reported |= {(f.id, f.remedy) for f in driver.check([folder]).findings}
    assert {(rule.id, rule.remedy) for rule in RULES} - reported == set()


def test_rules_are_those_of_the_catalogue() -> None:
    """Each row that generated code cannot contain (C) has a rule. Updates (U) are no pitfall."""
    about_code = {name for name in IDS if name[0] != "U"}
    assert {name for name, guard in rows().items() if "C" in guard} <= about_code <= set(rows())
