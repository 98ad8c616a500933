"""Wrong examples of the design that ddpgen comes from, each as a program and as a fragment."""

from pathlib import Path

import pytest

from check.test_pages import IMPORTS, MARK
from ddpgen.checking import driver

GROUP = 'dist.init_process_group("nccl", timeout=timedelta(minutes=1))\n'
WRAP = "model = DDP(build().to(device), device_ids=[local_rank])\n"
EXAMPLES = {
    "a model on the CPU under a named NCCL": GROUP
    + """\
model = nn.Linear(10, 10)
ddp_model = DDP(model)  # <-- D1
dist.destroy_process_group()
""",
    "the same, spawned": """\
def worker(rank, world_size):
    dist.init_process_group(
        backend="nccl", rank=rank, world_size=world_size, timeout=timedelta(minutes=1)
    )
    model = nn.Linear(10, 10)
    ddp_model = DDP(model)  # <-- D1
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)
""",
    "on the CPU, which Gloo allows": """\
model = nn.Linear(10, 10)
ddp_model = DDP(model)
""",
    "neither inputs nor labels moved": WRAP
    + """\
criterion = nn.CrossEntropyLoss()
for inputs, labels in train_loader:
    optimizer.zero_grad()
    outputs = model(inputs)  # <-- D3
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
""",
    "labels that are unpacked later": WRAP
    + """\
criterion = nn.CrossEntropyLoss()
for batch in loader:
    inputs, labels = batch
    inputs = inputs.to(device)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)  # <-- D3
    loss.backward()
    optimizer.step()
""",
    "set_device without a GPU": """\
torch.cuda.set_device(local_rank)  # <-- D5
device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
model = DDP(build().to(device))
""",
    "set_device where there is a GPU": """\
if torch.cuda.is_available():
    torch.cuda.set_device(local_rank)
device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
model = DDP(build().to(device))
""",
    "a scaler with bfloat16, by condition": WRAP
    + """\
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
scaler = torch.amp.GradScaler("cuda")  # <-- G9
with torch.autocast("cuda", dtype=dtype):
    loss = model(x).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
""",
    "a scaler for float16 alone, by condition": WRAP
    + """\
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
with torch.autocast("cuda", dtype=dtype):
    loss = model(x).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
""",
    "the last, shorter window": WRAP
    + """\
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        last = (step + 1) % accumulation_steps == 0
        with nullcontext() if last else model.no_sync():
            loss = F.cross_entropy(model(x), y) / accumulation_steps
            loss.backward()
        if (step + 1) % accumulation_steps == 0:  # <-- G5
            optimizer.step()
            optimizer.zero_grad()
""",
    "the last, shorter window, in an else": WRAP
    + """\
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        if (step + 1) % accumulation_steps != 0:  # <-- G5
            with model.no_sync():
                loss = F.cross_entropy(model(x), y) / accumulation_steps
                loss.backward()
        else:
            loss = F.cross_entropy(model(x), y) / accumulation_steps
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
""",
    "apex": """\
from apex import amp
from apex.parallel import DistributedDataParallel

model, optimizer = amp.initialize(build().to(device), optimizer, opt_level="O1")  # <-- G9
model = DistributedDataParallel(model)  # <-- D7
""",
    "FairScale": """\
from fairscale.nn.data_parallel import ShardedDataParallel as ShardedDDP

model = ShardedDDP(build().to(device), optimizer)  # <-- D7
""",
    "a data set of Hugging Face in the order of each rank": """\
from datasets import load_dataset

data = load_dataset("imdb")["train"].map(tokenize).shuffle()  # <-- S3
sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=rank)
loader = DataLoader(data, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
""",
    "the same in one order": """\
from datasets import load_dataset

data = load_dataset("imdb")["train"].map(tokenize).shuffle(seed=0)
sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=rank)
loader = DataLoader(data, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
""",
    "a file that every rank writes": WRAP
    + """\
Path("results.json").write_text(json.dumps(results))  # <-- O1
""",
    "a file that rank 0 writes": WRAP
    + """\
if dist.get_rank() == 0:
    Path("results.json").write_text(json.dumps(results))
Path(f"results_{dist.get_rank()}.json").write_text(json.dumps(results))
""",
    "a batch that one rank skips, where another number is reduced": WRAP
    + """\
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    if torch.isnan(loss):  # <-- G10
        continue
    loss.backward()
    optimizer.step()
    shown = loss.detach().clone()
    dist.all_reduce(shown, op=dist.ReduceOp.AVG)
""",
    "a loss that decides, where another number is reduced": WRAP
    + """\
def train_epoch(model, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        if loss > 100:  # <-- G10
            continue
        loss.backward()
        optimizer.step()
    dist.all_reduce(samples)
""",
    "a batch that all ranks skip": WRAP
    + """\
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    bad = (~torch.isfinite(loss)).float()
    dist.all_reduce(bad)
    if bad > 0 or torch.isnan(bad):
        continue
    loss.backward()
    optimizer.step()
""",
    "a clock of each rank, where another number is reduced": WRAP
    + """\
begin = time.time()
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    dist.all_reduce(samples)
    if time.time() - begin > limit:  # <-- K8
        break
""",
    "a flag of each rank, where another number is reduced": """\
def on_signal(number, frame):
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, on_signal)
"""
    + WRAP
    + """\
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    dist.all_reduce(samples)
    if stopping:  # <-- K8
        break
""",
}
# What goes before a fragment to make a program of it.
BEFORE = 'dist.init_process_group("gloo", timeout=timedelta(minutes=1))\n'
AFTER = "dist.destroy_process_group()\n"


@pytest.mark.parametrize("whole", [False, True], ids=["fragment", "program"])
@pytest.mark.parametrize("title", EXAMPLES)
def test_wrong_example_is_found(title: str, whole: bool, tmp_path: Path) -> None:
    """On its line, and nothing else is reported."""
    text = EXAMPLES[title]
    if whole and "init_process_group" not in text:
        text = BEFORE + text + AFTER
    text = IMPORTS + text
    (tmp_path / "train.py").write_text(MARK.sub("", text))
    marks = {n: MARK.search(line) for n, line in enumerate(text.splitlines(), 1)}
    expected = {(number, mark[1]) for number, mark in marks.items() if mark}
    assert {(f.line, f.id) for f in driver.check([tmp_path]).findings} == expected
