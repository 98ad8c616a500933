"""The command: exit codes, forms of output, suppressions, what is read together and what is not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from generator.program import ddpgen

from ddpgen.checking import driver, pages, sarif
from ddpgen.checking.rules import RULES
from ddpgen.checking.settings import Settings

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
WRONG = f"import torch\n{DDP}model = DDP(torch.nn.Linear(1, 1), timeout=3)\n"


def ids(folder: Path, **files: str) -> list[str]:
    """What is found in Python files with these texts."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return [finding.id for finding in driver.check([folder]).findings]


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    (tmp_path / "clean.py").write_text("print('hello')\n")
    wrong = ddpgen("check", ".", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr) == (1, "")
    assert wrong.stdout.startswith("train.py:3:9: D9 error: DistributedDataParallel has no")
    assert "1 finding (1 error) in 2 files" in wrong.stdout
    clean = ddpgen("check", "clean.py", cwd=tmp_path)
    assert clean.returncode == 0
    assert "no Python file uses torch.distributed" in clean.stdout
    assert "nothing found in 1 file\n" in clean.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to check"),
        (["none"], "none: there is no such file or folder"),
        (["broken.py"], "broken.py: is not valid Python (line 2)"),
        (["latin.py"], "latin.py: is not UTF-8 text"),
        (["deep.py"], "deep.py: is nested too deeply"),
        (["zeros.py"], "zeros.py: is not valid Python ("),
        (["loop.py"], "loop.py: there is no such file or folder"),
        ([".", "--select", "G33"], "G33: there is no such rule\n  did you mean G3?"),
        ([".", "--ignore", "G3,Q1"], "Q1: there is no such rule"),
        (["--explain", "Q1"], "Q1: there is no such rule"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nif:\n")
    (tmp_path / "latin.py").write_bytes(b"name = '\xe9'\n")
    (tmp_path / "deep.py").write_text(f"x = {'-' * 100_000}1\n")
    (tmp_path / "zeros.py").write_bytes(bytes(9))
    (tmp_path / "loop.py").symlink_to("loop.py")
    run = ddpgen("check", *arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith(f"ddpgen: {message}")
    assert "Traceback" not in run.stderr


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    (tmp_path / "broken.py").write_text("print 'hello'\n")
    report = driver.check([tmp_path])
    assert [finding.id for finding in report.findings] == ["D9"]
    assert report.notes[0].endswith("was not checked: it is not valid Python (line 1)")


def test_selection(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG + "model.cuda(local_rank)\n")
    for select, ignore, expected in (
        ([], [], ["D9", "D1"]),
        (["D1"], [], ["D1"]),
        ([], ["D1"], ["D9"]),
        (["D1"], ["D1"], []),
    ):
        found = driver.check([tmp_path], Settings(select, ignore)).findings
        assert [finding.id for finding in found] == expected


def test_list_and_explain(tmp_path: Path) -> None:
    listed = ddpgen("check", "--list", cwd=tmp_path)
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == pages.ids()
    explained = ddpgen("check", "--explain", "G3", cwd=tmp_path)
    assert explained.returncode == 0
    for part in ("# G3: ", "## Wrong", "## Right", *(r.remedy for r in RULES if r.id == "G3")):
        assert part in explained.stdout


def test_json(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    content = json.loads(ddpgen("check", ".", "--format", "json", cwd=tmp_path).stdout)
    assert content["files"] == 1
    (finding,) = content["findings"]
    assert (finding["id"], finding["path"], finding["line"]) == ("D9", "train.py", 3)
    assert finding["why"]
    assert finding["remedy"]


def assert_sarif(log: Any) -> None:
    """What SARIF 2.1.0 demands of the parts that are used."""
    assert log.keys() == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver_ = run["tool"]["driver"]
    assert driver_["name"]
    known = [rule["id"] for rule in driver_["rules"]]
    assert len(set(known)) == len(known)
    for rule in driver_["rules"]:
        assert rule["shortDescription"]["text"]
    for result in run["results"]:
        assert known[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert " " not in place["artifactLocation"]["uri"]
            assert place["region"]["startLine"] >= 1
            assert place["region"]["startColumn"] >= 1


def test_sarif(tmp_path: Path) -> None:
    (tmp_path / "with space.py").write_text(WRONG)
    log = json.loads(ddpgen("check", ".", "--format", "sarif", cwd=tmp_path).stdout)
    assert_sarif(log)
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "D9"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "with%20space.py"
    assert_sarif(json.loads(sarif.log(driver.check([tmp_path]))))


LINE = "model = DDP(torch.nn.Linear(1, 1), timeout=3)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (f"{LINE}  # ddpgen: ignore[D9] an older fork has it", []),
        (f"# ddpgen: ignore[D9] an older fork has it\n{LINE}", []),
        (f"{LINE}  # ddpgen: ignore[D1, D9] two of them", ["X2"]),
        (f"{LINE}  # ddpgen: ignore[D9]", ["X1"]),
        (f"{LINE}  # ddpgen: ignore", ["D9", "X1", "X2"]),
        (f"{LINE}  # ddpgen: ignore[D1] another mistake", ["D9", "X2"]),
        (f"{LINE}\n# ddpgen: ignore[D9] too late", ["D9", "X2"]),
        (f"{LINE}\ntext = '# ddpgen: ignore[D9]'", ["D9"]),
    ],
)
def test_suppressions(lines: str, expected: list[str], tmp_path: Path) -> None:
    assert sorted(ids(tmp_path, train=f"import torch\n{DDP}{lines}\n")) == expected


def test_suppression_of_a_rule_that_is_not_asked_for_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{DDP}{LINE}  # ddpgen: ignore[D9] reason\n")
    assert not driver.check([tmp_path], Settings(select=["G3"])).findings


def test_suppression_in_a_launch_file(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("export NCCL_TIMEOUT=3  # ddpgen: ignore[D9] our plugin reads it\n")
    assert not driver.check([tmp_path]).findings
    script.write_text("export NCCL_TIMEOUT=3\n")
    assert [finding.id for finding in driver.check([tmp_path]).findings] == ["D9"]


SAMPLER = f"""\
{DDP}from torch.utils.data import DataLoader, DistributedSampler
def loader(dataset):
    return DataLoader(dataset, sampler=DistributedSampler(dataset))
for epoch in range(3):
    pass
"""


def test_files_of_one_program_are_read_together(tmp_path: Path) -> None:
    """The epoch is set in another file, which imports this one or is imported by it."""
    assert ids(tmp_path, data=SAMPLER) == ["S2"]
    other = "def start(loader, epoch):\n    loader.sampler.set_epoch(epoch)\n"
    assert ids(tmp_path, data=SAMPLER, unrelated=other) == ["S2"]
    assert ids(tmp_path, data=SAMPLER, train="import data\n" + other) == []
    (tmp_path / "train.py").unlink()
    assert ids(tmp_path, data="import epochs\n" + SAMPLER, epochs=other) == []


def test_wrap_in_another_file_is_followed(tmp_path: Path) -> None:
    wrap = f"{DDP}def wrap(model):\n    return DDP(model)\n"
    save = "import torch, wrapping\nmodel = wrapping.wrap(net)\nstate = model.state_dict()\n"
    assert ids(tmp_path, wrapping=wrap, train=save) == ["K2"]
    bare = save.replace("model.state_dict", "model.module.state_dict")
    assert ids(tmp_path, wrapping=wrap, train=bare) == []


# As well-written programs do it, which a hasty rule would report.
WELL_WRITTEN = {
    "weights of the bare model are read, not trained": """\
@torch.no_grad()
def average(kept, network):
    for old, new in zip(kept.parameters(), network.parameters()):
        old.lerp_(new, 0.01)
def train(kept, batches):
    model = DDP(build())
    for batch in batches:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        average(kept, model.module)
""",
    "the rate follows the batch before it is shared out": """\
model = DDP(build())
args.lr = args.lr * args.batch_size / 256
args.batch_size = args.batch_size // torch.distributed.get_world_size()
""",
    "a parent's seed stays with the parent": """\
model = lambda: DDP(torch.nn.Sequential(net, torch.nn.Dropout(0.1)))
def main():
    torch.manual_seed(0)
    torch.multiprocessing.spawn(train, nprocs=8)
""",
    "a path that rank 0 alone has": """\
def write(path, row):
    with open(path, "a") as file:
        file.write(row)
def main(rank):
    model, path = DDP(build()), None
    if rank == 0:
        path = "history.csv"
    for batch in batches:
        model(batch).backward()
        if path is not None:
            write(path, "row")
""",
    "another name for the rank": """\
model = DDP(build())
def get_global_rank():
    return torch.distributed.get_rank()
for batch in batches:
    model(batch).backward()
    if args.verbose and get_global_rank() == 0:
        print(batch)
""",
    "a profiler that survives what it tries": """\
def measure(model, sizes):
    for size in sizes:
        try:
            model(torch.ones(size)).backward()
        except RuntimeError as error:
            failed.append(error)
DDP(net)
""",
    "a conversion of its own": """\
def convert_sync_batchnorm(module):
    for name, child in module.named_children():
        module.add_module(name, convert_sync_batchnorm(child))
    return module
device = "cuda" if torch.cuda.is_available() else "cpu"
DDP(net)
""",
    "a test beside what it tests": """\
DDP(net)
def test_probe():
    for step in range(4):
        net(x).backward()
        print(step)
""",
    "ranks that are only pretended": """\
DDP(net)
def trace():
    torch.distributed.init_process_group("fake", rank=0, world_size=8)
    torch.cuda.set_device(torch.device("cuda:0"))
""",
    "weights written once, for others": """\
import torch.distributed as dist
DDP(net)
def publish(model, folder):
    torch.load("old.pt", map_location="cpu", weights_only=True)
    weights = model.state_dict()
    if dist.get_rank() == 0:
        torch.save(weights, folder / "pytorch_model.bin")
""",
    "a loss that only an evaluation asks for": """\
def captions(logits, labels, pad_id):
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=pad_id)
def evaluate(model):
    with torch.inference_mode():
        return captions(model(x), y, 0)
DDP(net)(x).backward()
""",
    "a loss of another package": """\
from fused.ops import cross_entropy
cross_entropy(DDP(net)(x), y, ignore_index=pad).backward()
""",
    "a stream that later stages deal out": """\
class Names(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from self.names
stages = [Names(), split_by_node, split_by_worker]
DDP(net)
""",
    "ranks that call each other": """\
import torch.distributed.rpc as rpc
model = DDP(net)
for batch in batches:
    model(batch).backward()
    print("the trainer has done a batch")
""",
    "NCCL raises on CPUs before": """\
from datetime import timedelta
device = "cuda" if torch.cuda.is_available() else torch.device("cpu")
torch.distributed.init_process_group("nccl", timeout=timedelta(minutes=5))
torch.cuda.set_device(local_rank)
DDP(net)
torch.distributed.destroy_process_group()
""",
    "what never runs": "model = DDP(net)\nif False:\n    torch.save(model.state_dict(), 'x.pt')\n",
}


@pytest.mark.parametrize("style", WELL_WRITTEN)
def test_well_written_programs_pass(style: str, tmp_path: Path) -> None:
    assert ids(tmp_path, train=f"import torch\n{DDP}{WELL_WRITTEN[style]}") == []


def test_batch_script_with_one_rank_on_each_node(tmp_path: Path) -> None:
    script = "#SBATCH --nodes=4\n#SBATCH --ntasks={}\n#SBATCH --gpus-per-task=1\n"
    for tasks, expected in ((4, []), (8, ["D6"])):
        (tmp_path / "job.sbatch").write_text("#!/bin/bash\n" + script.format(tasks))
        assert [finding.id for finding in driver.check([tmp_path]).findings] == expected


def test_what_a_library_does_when_it_is_run_is_no_matter(tmp_path: Path) -> None:
    common = "import torch\nif __name__ == '__main__':\n    torch.save(1, 'x.pt')\n"
    assert ids(tmp_path, train=f"{DDP}import common\nmodel = DDP(net)\n", common=common) == []
    assert ids(tmp_path, train=f"{DDP}{common}model = DDP(net)\n") == ["K1"]


def test_a_library_that_is_run_trains_nothing(tmp_path: Path) -> None:
    """Not so where it starts ranks: it is a program, whoever imports it, too."""
    write = "def write():\n    torch.save(1, 'x.pt')\n"
    common = f"import torch\n{write}if __name__ == '__main__':\n    write()\n"
    train = f"{DDP}import common\nmodel = DDP(net)\n"
    assert ids(tmp_path, train=train, common=common) == []
    assert ids(tmp_path, train=train, common=f"{DDP}{common}    DDP(net)\n") == ["K1"]


def test_programs_without_ddp_pass(tmp_path: Path) -> None:
    """Also those that share a module with one that uses it."""
    single = "import torch, common\ntorch.save(net, 'x.pt')\nmodel = torch.nn.DataParallel(net)\n"
    common = f"{DDP}def wrap(model):\n    return DDP(model)\ndef other():\n    pass\n"
    assert ids(tmp_path, single=single, common=common) == []
    assert ids(tmp_path, single=single + "common.wrap(net)\n") == ["K1", "D7"]


def test_frameworks_are_not_judged(tmp_path: Path) -> None:
    framework = "import accelerate\naccelerator = accelerate.Accelerator()\n"
    (tmp_path / "train.py").write_text(framework + WRONG)
    report = driver.check([tmp_path])
    assert not report.findings
    assert "accelerate" in report.notes[0]


def test_a_framework_that_only_a_function_imports_distributes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"def export():\n    import keras\n{WRONG}")
    assert [finding.id for finding in driver.check([tmp_path]).findings] == ["D9"]


def test_tests_and_environments_are_left_out_unless_named(tmp_path: Path) -> None:
    for name in ("tests/a.py", "test_b.py", ".venv/c.py", "node_modules/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(WRONG)
    assert driver.check([tmp_path]).files == 0
    assert len(driver.check([tmp_path / "test_b.py"]).findings) == 1


def test_heavy_modules_are_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from ddpgen.cli import main; main(['check', '.']);"
        "heavy = {'torch', 'copier', 'jinja2', 'questionary', 'yaml'} & sys.modules.keys();"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    (tmp_path / "train.py").write_text(WRONG)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
