"""Each pitfall that generated code cannot contain is reported when an edit brings it in.

The edits are as people make them: a moved line, a forgotten argument, a snippet from elsewhere.
Together with the tests that nothing is found in generated projects they prove column C.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
from mutants.table import BASES, MUTATIONS
from product import template

from check.test_pages import rows
from ddpgen.asking.question import Answers
from ddpgen.checking import driver, pages
from ddpgen.checking.settings import Settings
from ddpgen.rendering.render import render

FULL: Answers = {
    "project_name": "full",
    "model": "resnet",
    "batch_norm": "sync",
    "amp": "fp16",
    "accumulation": True,
    "accumulation_steps": 4,
    "activation_checkpointing": True,
    "checkpoint": True,
    "sharding": "zero1",
    "dynamic_graph": False,
    "tracker": "wandb",
    "clusters": ["local", "slurm"],
    "nodes": 2,
    "gpus_per_node": 4,
    "micro_batch_size": 32,
    "network": "ethernet",
    "container": "none",
}
PLAIN: Answers = {
    **FULL,
    "batch_norm": "local",
    "accumulation": False,
    "sharding": "off",
    "activation_checkpointing": False,
}
GPT: Answers = {**{k: v for k, v in FULL.items() if k != "batch_norm"}, "model": "gpt"}

BACKWARD = "    state.scaler.scale(loss * weight).backward()\n"
SESSION = """\
    yield _setup(cfg)
    _ended.append(dist.group.WORLD)
    dist.destroy_process_group()
"""
LOCK = """\
    with filelock.FileLock(settings.folder("data.folder", cfg.folder) / ".lock"):
        try:
            data.prepare(cfg)
"""
WRAPPED = "    network = distributed.wrap(model.build(cfg.model, shape), process, cfg)\n"
# What looks back before it asks for another start; and what asks for one after every failure.
LIMITED = """\
if attend "${prepare[@]}"; then
    attend "${train[@]}" || true
fi
look_back
if ((short == 1 && told == 1 && SECONDS < 60)) && [[ $reason ]]; then
    echo "$reason: not again, since the time limit leaves no time for the training" >&2
    reason="" status=93
fi
silent=""
if [[ $reason ]]; then
"""
FOR_EVER = """\
if ! srun torchrun --nnodes="$NNODES" train.py run.name="$run" "$@"; then
    scontrol requeue "$SLURM_JOB_ID"
"""
SEED = '    loading.seed_all("step", cfg.run.seed, state.step, process.rank)\n'


class Edit(NamedTuple):
    id: str
    file: str
    old: str
    new: str
    answers: Answers = FULL


EDITS = [
    Edit("D1", "engine/distributed.py", "    model = model.to(process.device)\n", ""),
    Edit("D1", "train.py", WRAPPED, WRAPPED + "    network = network.to(process.device)\n"),
    Edit(
        "D2",
        "engine/distributed.py",
        "    model = model.to(process.device)\n",
        "    model.stem.to(process.device)\n",
    ),
    Edit(
        "D3",
        "steps.py",
        "(tensor.to(device, non_blocking=True) for tensor in batch)\n",
        "batch\n    inputs = [tensor.to(device) for tensor in inputs]\n",
    ),
    Edit(
        "D4",
        "engine/distributed.py",
        '    return torch.device("cuda", local_rank)\n',
        '    return torch.device("cuda", int(os.environ["RANK"]))\n',
    ),
    Edit(
        "D4",
        "engine/distributed.py",
        '    return torch.device("cuda", local_rank)\n',
        '    return torch.device("cuda:0")\n',
    ),
    Edit(
        "D5",
        "engine/distributed.py",
        '    if device.type == "cuda":\n        torch.cuda.set_device(device)',
        "    if False:\n        pass",
    ),
    Edit(
        "D6", "launch/slurm_direct.sbatch", "#SBATCH --gpus-per-node=4", "#SBATCH --gpus-per-task=1"
    ),
    Edit(
        "D7",
        "engine/distributed.py",
        "    return DistributedDataParallel(",
        "    return nn.DataParallel(",
    ),
    Edit(
        "D8",
        "engine/distributed.py",
        SESSION,
        "    try:\n        yield _setup(cfg)\n    finally:\n        dist.barrier()\n"
        "        dist.destroy_process_group()\n",
    ),
    Edit("D8", "engine/distributed.py", "    dist.destroy_process_group()\n", ""),
    Edit(
        "D9",
        "engine/distributed.py",
        "backend, timeout=limit, ",
        "backend, ",
    ),
    Edit("D9", "launch/nccl.env", "NCCL_DEBUG=WARN", "NCCL_DEBUG=WARN\nNCCL_TIMEOUT=1800"),
    Edit("D11", "launch/local.sh", "torchrun --standalone", "torchrun --master-port=29500"),
    Edit("D11", "launch/slurm.sbatch", "PORT=$((20000 + SLURM_JOB_ID % 10000))", "PORT=29500"),
    Edit(
        "D12",
        "engine/place.py",
        "text, port = os.environ.setdefault(name, value),",
        "text, port = os.environ[name],",
    ),
    Edit(
        "D13",
        "engine/loading.py",
        LOCK,
        "    if not dist.is_initialized() or dist.get_rank() == 0:\n"
        "        try:\n            data.prepare(cfg)\n",
    ),
    Edit(
        "D14",
        "train.py",
        "    set_numerics(cfg.run)\n",
        "    set_numerics(cfg.run)\n    if process.is_main:\n        loading.prepare(cfg.data)\n"
        "    torch.distributed.barrier()\n",
    ),
    Edit("S1", "engine/loading.py", "        sampler=shard,\n", "        shuffle=True,\n"),
    Edit("S2", "engine/loading.py", "        self.order.set_epoch(epoch)\n", ""),
    Edit("S2", "engine/loading.py", "self.order.set_epoch(epoch)", "self.order.set_epoch(0)"),
    Edit("S3", "engine/loading.py", "seed=split.seed", "seed=split.seed + process.rank"),
    Edit("S4", "engine/loading.py", "sampler=shard,\n", "sampler=shard,\n        shuffle=True,\n"),
    Edit(
        "S5",
        "data.py",
        "(micro_batch * self.world_size + self.rank) * self.micro_batch",
        "micro_batch * self.micro_batch",
        GPT,
    ),
    Edit("S6", "steps.py", SEED, SEED.replace(", process.rank", ""), GPT),
    Edit(
        "S7",
        "engine/loading.py",
        "MicroBatches(splits.train, ",
        "MicroBatches(splits.train[process.rank :: process.world_size], ",
    ),
    Edit(
        "S8",
        "engine/loading.py",
        "Shard(val, process, batches.micro_batch, shuffle=False)",
        "DistributedSampler(splits.val, shuffle=False)",
    ),
    Edit("G1", "steps.py", "forward(state.model, ", "forward(state.model.module, "),
    Edit("G2", "steps.py", BACKWARD, "    loss.backward()\n"),
    Edit("G3", "steps.py", "with state.model.no_sync():", "with contextlib.nullcontext():"),
    Edit(
        "G4",
        "steps.py",
        "    state.scaler.unscale_(",
        "    state.optimizer.zero_grad()\n    state.scaler.unscale_(",
    ),
    Edit(
        "G5",
        "engine/loading.py",
        "    while group := list(islice(batches, size)):\n",
        "    while group := list(islice(batches, size)):\n        if len(group) < size:\n"
        "            break\n",
    ),
    Edit("G6", "model.py", ', reduction="sum"', ""),
    Edit("G7", "steps.py", "    state.scaler.unscale_(state.optimizer)", "    pass"),
    Edit("G8", "steps.py", BACKWARD, BACKWARD + "    state.scheduler.step()\n"),
    Edit("G9", "steps.py", "torch.float16", "torch.bfloat16"),
    Edit("G9", "engine/state.py", '            "scaler": self.scaler.state_dict(),\n', ""),
    Edit("G10", "steps.py", BACKWARD, "    if loss.isnan():\n        return\n" + BACKWARD),
    Edit(
        "G11",
        "engine/distributed.py",
        "        bucket_cap_mb=",
        "        find_unused_parameters=True,\n        bucket_cap_mb=",
    ),
    Edit("G12", "model.py", "use_reentrant=False", "use_reentrant=True"),
    Edit("G13", "train.py", "batches.global_batch)", "batches.micro_batch)"),
    Edit(
        "G14",
        "train.py",
        WRAPPED,
        WRAPPED + "    network.module.head.weight = network.module.embedding.weight\n",
        GPT,
    ),
    Edit(
        "B1",
        "train.py",
        WRAPPED,
        WRAPPED + "    network = torch.nn.SyncBatchNorm.convert_sync_batchnorm(network)\n",
    ),
    Edit(
        "B2",
        "engine/distributed.py",
        '    if process.device.type == "cuda":\n'
        "        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
        "    elif process.is_main:\n",
        "    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n    if process.is_main:\n",
    ),
    Edit(
        "B3",
        "engine/distributed.py",
        "        bucket_cap_mb=",
        "        broadcast_buffers=False,\n        bucket_cap_mb=",
        PLAIN,
    ),
    Edit("K1", "engine/checkpoint.py", "    distributed.on_main(process, task)\n", "    task()\n"),
    Edit("K2", "engine/state.py", "self.model.module.state_dict()", "self.model.state_dict()"),
    Edit(
        "K3",
        "engine/state.py",
        '            "optimizer": self.optimizer.state_dict(),\n',
        "",
        PLAIN,
    ),
    Edit(
        "K4",
        "engine/state.py",
        '        self.target_count.fill_(snapshot["valid"])\n',
        '        torch.set_rng_state(snapshot["random"])\n',
        PLAIN,
    ),
    Edit(
        "K5",
        "engine/checkpoint.py",
        "_write_whole(path, lambda file: _save(content, file))",
        "torch.save(content, path)",
    ),
    Edit(
        "K6",
        "engine/checkpoint.py",
        "        write(",
        "        rotate(path, cfg.checkpoint.keep, state.best_step)\n        write(",
    ),
    Edit("K7", "engine/checkpoint.py", ', map_location="cpu"', ""),
    Edit("K7", "engine/checkpoint.py", "weights_only=True", "weights_only=False"),
    Edit(
        "K8",
        "engine/report.py",
        "        loss = distributed.sum_over_ranks(",
        "        if self.process.is_main:\n            loss = distributed.sum_over_ranks(",
    ),
    Edit(
        "K9",
        "engine/checkpoint.py",
        "        self.received = True\n",
        "        torch.save({}, folder)\n        self.received = True\n",
    ),
    Edit(
        "K10",
        "engine/state.py",
        '            "step": self.step,\n',
        '            "step": self.step,\n            "epoch": epoch,\n',
    ),
    Edit("K11", "engine/state.py", "consolidate_state_dict", "synchronize"),
    Edit(
        "O1",
        "engine/report.py",
        "        if self.process.is_main:\n            print(",
        "        if True:\n            print(",
    ),
    Edit("O2", "steps.py", "distributed.sum_over_ranks(torch.stack(", "(torch.stack("),
    Edit(
        "O3",
        "train.py",
        "            if at_end or due(state.step, run.cfg.train.evaluate_every_steps):\n",
        "            if at_end and run.process.is_main:\n",
    ),
    Edit("O4", "steps.py", "state.loss += loss.detach()", "state.loss += loss.item()"),
    Edit(
        "O5",
        "engine/report.py",
        "    return Path(distributed.on_main(",
        '    folder = Path(cfg.folder) / time.strftime("%H%M%S")\n'
        "    return folder or Path(distributed.on_main(",
    ),
    Edit("O8", "steps.py", "    network.eval()\n    sums: ", "    sums: "),
    Edit("O14", "steps.py", "state.loss += loss.detach()", "state.loss += loss"),
    Edit("L1", "launch/slurm.sbatch", "#SBATCH --nodes", "# SBATCH --nodes"),
    Edit(
        "L2",
        "launch/slurm_direct.sbatch",
        "    bash launch/slurm_rank.sh",
        '    srun torchrun --node-rank="$SLURM_NODEID" train.py',
    ),
    Edit("L1", "launch/node.sh", '--nproc-per-node="$NPROC"', "--nproc-per-node=8"),
    Edit("L1", "launch/slurm.sbatch", "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n", ""),
    Edit("L2", "launch/slurm.sbatch", "export HEAD\n", "export HEAD NODE_RANK=$SLURM_NODEID\n"),
    Edit(
        "L3",
        "launch/slurm.sbatch",
        """trap 'told=1; kill -USR1 "$child" 2>/dev/null || true' USR1 INT\n""",
        "",
    ),
    Edit("L3", "launch/slurm.sbatch", "#SBATCH --signal=B:USR1@300\n", ""),
    Edit("L3", "launch/slurm.sbatch", "#SBATCH --requeue\n", ""),
    Edit("L4", "launch/slurm.sbatch", " --kill-on-bad-exit=1 --wait=60", ""),
    Edit("L8", "launch/slurm.sbatch", LIMITED, FOR_EVER),
    Edit("K13", "launch/slurm.sbatch", "export HEAD\n", "export HEAD\nOUTPUT=/tmp/runs\n"),
    Edit("L5", "launch/nccl.env", "NCCL_DEBUG=WARN", "NCCL_DEBUG_LEVEL=WARN"),
    Edit("L6", "launch/nccl.env", "NCCL_DEBUG=WARN", "NCCL_DEBUG=INFO"),
    Edit("L7", "launch/env.sh", "network_env() {\n", 'network_env() {\n    eval "$SETTINGS"\n'),
]


# Mistakes that take edits in two places.
SHARED = """\
    for buffer in model.module.buffers():
        dist.broadcast(buffer, src=0)
"""
STEP = '            "step": self.step,\n'
MORE = {
    "B3": [("engine/distributed.py", SHARED, "")],
    "K4": [("engine/state.py", STEP, STEP + '            "random": torch.get_rng_state(),\n')],
    "K10": [
        (
            "engine/state.py",
            '        self.step = snapshot["step"]\n',
            '        self.first = snapshot["epoch"]\n',
        )
    ],
    "L8": [
        ("launch/slurm.sbatch", "((saved == 1 || told == 1)) || ", ""),
        ("launch/slurm.sbatch", "if ((status != 0)) && [[", "if [["),
        ("launch/slurm.sbatch", "((short == 0)) || echo", "echo"),
    ],
}


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """One of each kind, by the identity of its answers."""
    folders = {}
    for answers in (FULL, PLAIN, GPT):
        folders[id(answers)] = tmp_path_factory.mktemp("project")
        render(answers, folders[id(answers)])
    return folders


def identifier(edit: Edit) -> str:
    return f"{edit.id}-{edit.file}"


@pytest.mark.parametrize("edit", EDITS, ids=identifier)
def test_what_comes_back_is_reported(edit: Edit, projects: dict[int, Path]) -> None:
    project, texts = projects[id(edit.answers)], {}
    for name, old, new in ((edit.file, edit.old, edit.new), *MORE.get(edit.id, ())):
        text = (project / name).read_text()
        texts.setdefault(project / name, text)
        assert old in text
        (project / name).write_text(text.replace(old, new))
    try:
        assert driver.check([project], Settings(select=[edit.id])).findings
    finally:  # what was not edited is not read again
        for file, text in texts.items():
            file.write_text(text)


def test_all_rows_with_guard_c_come_back() -> None:
    assert {name for name, guard in rows().items() if "C" in guard} == {edit.id for edit in EDITS}


@pytest.mark.parametrize("base", BASES)
def test_mistakes_are_reported_where_the_source_shows_them(base: str, tmp_path: Path) -> None:
    """Those of the table that the projects' own tests are tried with; the others say why not."""
    for mistake in (m for m in MUTATIONS if m.base == base):
        template.write(BASES[base], tmp_path)
        file = tmp_path / mistake.path
        file.write_text(file.read_text().replace(mistake.old, mistake.new))
        known = mistake.pitfall in pages.ids()
        row = mistake.check if mistake.check in pages.ids() else mistake.pitfall
        found = driver.check([tmp_path], Settings(select=[row])).findings if known else []
        assert bool(found) == (mistake.check in ("", row)), mistake
