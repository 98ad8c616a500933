"""Programs in other people's ways: marked lines are reported, and nothing else is.

Each stands for a mechanism that once was reported wrongly, or missed.
"""

from pathlib import Path

import pytest

from check.test_pages import IMPORTS, MARK
from ddpgen.checking import driver

# Several files of one program begin with `# file: NAME`; the first is train.py.
DEVICE = {
    "inputs stay behind": """\
model = DDP(build(), device_ids=[local_rank])
evaluated = model.module
for batch in loader:
    *inputs, targets = batch
    targets = targets.to(device)
    metric(evaluated(*inputs), targets)  # <-- D3
""",
    "inputs of DDP with device_ids follow by themselves": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    criterion(model(inputs), targets.to(device)).backward()
    optimizer.step()
""",
    "inputs of DDP without device_ids do not": """\
model = DDP(build().to(device))
for inputs, targets in loader:
    optimizer.zero_grad()
    criterion(model(inputs), targets.to(device)).backward()  # <-- D3
    optimizer.step()
""",
    "labels unpacked and left": """\
model = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    inputs, labels = batch
    inputs = inputs.to(device)
    criterion(model(inputs), labels).backward()  # <-- D3
    optimizer.step()
""",
    "labels that a function gives back": """\
def forward(model, batch):
    *inputs, labels = batch
    inputs = [x.to(device) for x in inputs]
    return model(*inputs), labels  # <-- D3


model = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    outputs, labels = forward(model, batch)
    criterion(outputs, labels).backward()
    optimizer.step()
""",
    "moved by a comprehension": """\
model = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    *inputs, targets = (tensor.to(device) for tensor in batch)
    criterion(model(*inputs), targets).backward()
    optimizer.step()
""",
    "moved by map": """\
model = DDP(build().to(device))
for inputs, targets in DataLoader(dataset, 8, sampler=sampler):
    optimizer.zero_grad()
    inputs, targets = map(lambda part: part.to(device), (inputs, targets))
    criterion(model(inputs), targets).backward()
    optimizer.step()
""",
    "moved as a dictionary": """\
model = DDP(build().to(device))
for batch in DataLoader(dataset, 8, sampler=sampler):
    optimizer.zero_grad()
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    inputs, targets = batch["inputs"], batch["targets"]
    criterion(model(inputs), targets).backward()
    optimizer.step()
""",
    "nothing is moved": """\
model = DDP(build().to(device))
for inputs, targets in DataLoader(dataset, 8, sampler=sampler):
    optimizer.zero_grad()
    criterion(model(inputs), targets).backward()  # <-- D3
    optimizer.step()
""",
    "nothing is moved, and DDP moves its inputs alone": """\
model = DDP(build().to(device), device_ids=[local_rank])
for number, batch in enumerate(DataLoader(dataset, 8, sampler=sampler)):
    optimizer.zero_grad()
    images, labels = batch
    outputs = model(images)  # <-- D3
    F.cross_entropy(outputs, labels).backward()
    optimizer.step()
""",
    "the model computes the loss, and DDP moves all that it gets": """\
model = DDP(build().to(device), device_ids=[local_rank])
for inputs, targets in DataLoader(dataset, 8, sampler=sampler):
    optimizer.zero_grad()
    model(inputs, targets).backward()
    optimizer.step()
""",
    "a data set on the device": """\
class Images(torch.utils.data.Dataset):
    def __getitem__(self, number):
        return torch.tensor(self.rows[number], device=self.device), self.labels[number]


model = DDP(build().to(device))
for inputs, targets in DataLoader(dataset, 8, sampler=sampler):
    optimizer.zero_grad()
    criterion(model(inputs), targets).backward()
    optimizer.step()
""",
    "the number of the batch is no data": """\
model = DDP(build(), device_ids=[local_rank])
for i, (inputs, targets) in enumerate(loader):
    optimizer.zero_grad()
    inputs, targets = inputs.to(device), targets.to(device)
    loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if i % 100 == 0 and rank == 0:
        print("step {} loss {}".format(i, loss.item()))
        losses.update(loss.item(), i)
""",
    "a loss moves with the module that it is in": """\
class Trainee(nn.Module):
    def __init__(self):
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(weight=torch.ones(3), reduction="none")


model = DDP(Trainee().cuda(local_rank), device_ids=[local_rank])
""",
    "a loss moves with a module that is given it": """\
criterion = nn.CrossEntropyLoss(weight=torch.ones(3), reduction="none")
model = DDP(WithLoss(network, criterion).cuda(local_rank), device_ids=[local_rank])
""",
}
NAMES = {
    "a class called Process starts nothing": """\
class Process:
    pass


rank = int(os.environ["RANK"])  # <-- D12
process = Process(rank)
dist.barrier()
""",
    "processes that are started with the variables": """\
def work(number):
    os.environ.update({"RANK": str(number)})
    dist.barrier()


rank = int(os.environ["RANK"])
torch.multiprocessing.Process(target=work).start()
""",
    "a variable called like a module": """\
from state import State


def resume(state):
    snapshot = torch.load("last.pt", map_location="cpu", weights_only=True)
    state.restore(snapshot)


def main():
    resume(State())


main()
dist.barrier()
# file: state.py
import torch


class State:
    def snapshot(self):
        return {"random": torch.get_rng_state()}

    def restore(self, snapshot):
        torch.set_rng_state(snapshot["random"])  # <-- K4
""",
}
SAMPLES = {
    "a count that a function makes of a comparison": """\
def counted(targets):
    return targets != 0


model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    loss = F.cross_entropy(model(inputs), targets, reduction="sum")
    (loss / counted(targets).sum().clamp(min=1)).backward()  # <-- G6
""",
}
FILES = {
    "old files go before the new one is written, by functions": """\
from pathlib import Path


def rotate(folder):
    for path in sorted(Path(folder).glob("*.pt"))[:-3]:
        path.unlink()


def write(path, content):
    partial = path.with_suffix(".tmp")
    torch.save(content, partial)
    os.replace(partial, path)


def checkpoint(folder):
    if dist.get_rank() == 0:
        rotate(folder)  # <-- K6
        write(folder / "new.pt", state)
""",
    "a list that something is removed from": """\
def write(path, content):
    partial = path.with_suffix(".tmp")
    torch.save(content, partial)
    os.replace(partial, path)


def checkpoint(folder, waiting):
    if dist.get_rank() == 0:
        waiting.remove(folder)
        write(folder / "new.pt", state)
""",
}
MECHANISMS = {**DEVICE, **NAMES, **SAMPLES, **FILES}


@pytest.mark.parametrize("title", MECHANISMS)
def test_mechanism(title: str, tmp_path: Path) -> None:
    first, *others = (IMPORTS + MECHANISMS[title]).split("# file: ")
    texts = {"train.py": first} | {
        name: text for name, _, text in (o.partition("\n") for o in others)
    }
    expected = []
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(MARK.sub("", text))
        for number, line in enumerate(text.splitlines(), 1):
            if mark := MARK.search(line):
                expected.append((name, number, mark[1]))
    found = driver.check([tmp_path]).findings
    got = [(str(f.path.relative_to(tmp_path)), f.line, f.id) for f in found]
    assert sorted(got) == sorted(expected), found
