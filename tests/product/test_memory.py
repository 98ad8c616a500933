"""What tools.memory says before the run, against what two ranks really allocate in a step."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddpgen.asking.question import Answers
from product import forkserver, template
from product.combinations import combinations, identifier, pairs, singles
from product.programs import STEP_OPTIONS, completed

# Models of some MiB, of which neither parameters nor activations are a trifle. Convolutions of some
# CPUs take scratch memory that grows with the width only: their images are large.
SIZES = {
    "mlp": ["model.depth=4", "train.global_batch_size=256"],
    "table": ["model.depth=4", "model.width=256", "train.global_batch_size=64"],
    "resnet": ["model.width=16", "data.image_size=16", "train.global_batch_size=256"],
    "vision": ["train.global_batch_size=64"],
    "gpt": [f"data.source={ast.__file__}", "train.global_batch_size=8"],
    "causal-lm": ["train.global_batch_size=8"],
    "text-classifier": ["train.global_batch_size=32"],
    "custom": ["model.width=256", "model.depth=4", "train.global_batch_size=64"],
}
MICRO = {"mlp": 32, "table": 8, "resnet": 64, "gpt": 2, "text-classifier": 4, "custom": 8}
MICRO |= {"causal-lm": 2, "vision": 8}
BOUND = 0.1  # relative, of all that the step has allocated at its fullest moment
# CPUs that compute in bfloat16 bring the input of a convolution into another layout: a copy more.
WITH_COPIES = 0.12
PLAIN: Answers = {"model": "mlp", "amp": "bf16"}
SUMMED: Answers = {**PLAIN, "accumulation": True}
VIEWS = "ddp.gradient_as_bucket_view"


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared data by model."""
    return tmp_path_factory.mktemp("prepared")


def measure(answers: Answers, project: Path, data: Path, *more: str) -> list[dict[str, Any]]:
    """What was measured, and estimated, on each of two ranks."""
    compression = answers["sharding"] in ("off", "zero1")
    template.write({**answers, "tools": ["memory"], "compression": compression}, project)
    (project / "train.py").rename(project / "original.py")
    shutil.copy(Path(__file__).with_name("measured.py"), project / "train.py")
    model = str(answers["model"])
    overrides = [*SIZES[model], f"data.folder={data / model}", *more]
    if answers.get("accumulation"):
        overrides.append(f"train.micro_batch_size={MICRO[model]}")
    if answers.get("dynamic_graph"):
        overrides.append("model.layer_drop=0.0")
    run = forkserver.train(project, 2, overrides)
    assert run.codes == [0, 0], run.output[-3000:]
    return [json.loads((project / f"memory{rank}.json").read_text()) for rank in (0, 1)]


def close(found: dict[str, Any], bound: float = BOUND) -> bool:
    """Whether the estimate is within the bound that docs/code/tools.md states."""
    ratio = found["estimated"] / found["measured"]
    print(f"{found['measured'] / 2**20:8.2f} MiB, estimated {ratio:.3f} of it, {found['parts']}")
    return abs(ratio - 1) <= bound


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        every = metafunc.config.getoption("--programs") == "all"
        chosen = (pairs if every else singles)(list(combinations(STEP_OPTIONS)))
        metafunc.parametrize("program", chosen, ids=identifier)


def test_estimate_is_close(program: Answers, tmp_path: Path, prepared: Path) -> None:
    """The rank that needs most is within the bound: with ZeRO-1 the others keep less."""
    ranks = measure(program, tmp_path / "project", prepared)
    copies = program["model"] in ("resnet", "vision") and program["amp"] == "bf16"
    fullest = max(ranks, key=lambda found: found["measured"])
    assert close(fullest, WITH_COPIES if copies else BOUND)


@pytest.mark.parametrize("answers", [PLAIN, SUMMED], ids=["whole", "accumulated"])
def test_gradients_beside_the_buckets(answers: Answers, tmp_path: Path, prepared: Path) -> None:
    views, beside = (
        measure(completed(answers, STEP_OPTIONS), tmp_path / value, prepared, f"{VIEWS}={value}")[0]
        for value in ("true", "false")
    )
    assert close(views)
    assert close(beside)
    # Where they are summed up outside the buckets anyway, they only stay longer.
    assert beside["estimated"] > views["estimated"] or answers is SUMMED


@pytest.mark.parametrize("value", ["reshard_after_forward=false", "reduce_each_micro_batch=true"])
def test_values_of_fsdp_count(value: str, tmp_path: Path, prepared: Path) -> None:
    """Weights that stay gathered, and gradients that are shared out after each micro-batch."""
    program = completed({**SUMMED, "sharding": "fsdp"}, STEP_OPTIONS)
    changed = measure(program, tmp_path / "project", prepared, f"fsdp.{value}")[0]
    assert close(changed)


def test_a_model_beyond_this_host_is_estimated(tmp_path: Path) -> None:
    """A GPT of 31 billion parameters, in a process that may take 8 GiB."""
    template.write({"model": "gpt", "tools": ["memory"]}, tmp_path)
    code = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33));"
    code += "sys.argv[0] = 'memory'; runpy.run_module('tools.memory', run_name='__main__')"
    sizes = ["model.width=8192", "model.layers=38", "model.heads=64", "data.window=256"]
    options = ["--ranks=1024", "--ranks-per-node=8", "--gib=80", "train.global_batch_size=1024"]
    command = [sys.executable, "-c", code, *options, *sizes, f"data.source={ast.__file__}"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    last = run.stdout.splitlines()[-1]
    assert re.match("does not fit with off; zero1 needs .* GiB, hsdp over 8 of each node", last)
    assert last.endswith(": choose sharding=hsdp"), last


FSDP_MODELS = [
    row for row in combinations(("model", "batch_norm")) if row.get("batch_norm") in (None, "group")
]


@pytest.mark.parametrize("row", FSDP_MODELS, ids=identifier)
def test_blocks_are_found_before_a_change(row: Answers, tmp_path: Path, forked: Path) -> None:
    """What a project with DDP takes for blocks are those that model.BLOCK names with FSDP."""
    template.write({**row, "tools": ["memory"], "sharding": "fsdp"}, tmp_path)
    with_ddp = {**row, "tools": ["memory"], "sharding": "off"}
    file = "tools/memory/gathering.py"
    (tmp_path / file).write_text(template.text(file, with_ddp) or "", encoding="utf-8")
    code = """
import config, data, model
from engine import loading
from tools.memory import gathering
cfg = config.load(config.DEFAULTS, __import__("sys").argv[1:])
loading.prepare(cfg.data)
network = model.build(cfg.model, data.open_splits(cfg.data).shape)
named = [part for part in network.modules() if isinstance(part, model.BLOCK)]
assert [*map(id, gathering.repeated(network))] == [*map(id, named)] != []
"""
    command = [forked / "python", "-c", code, *SIZES[str(row["model"])]]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


def test_what_powersgd_left_out(tmp_path: Path, prepared: Path) -> None:
    levers = ["ddp.compress=powersgd", "ddp.powersgd_after=2"]
    for found in measure(completed(PLAIN, STEP_OPTIONS), tmp_path / "project", prepared, *levers):
        assert found["parts"]["compression"] == found["errors"] > 0
