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
SHARES = {
    "a split of scikit-learn, in a function": """\
import argparse
from sklearn.model_selection import train_test_split


def tables(frame):
    fit, held_out = train_test_split(frame, test_size=0.2)  # <-- S3
    return fit, held_out


def main(options):
    dist.barrier()
    torch.manual_seed(options.seed)
    fit, held_out = tables(read(options.csv))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
""",
    "a split of Hugging Face, with a seed and without one": """\
from datasets import load_dataset

dist.barrier()
corpus = load_dataset("text", data_files=pattern)["train"]
first = corpus.train_test_split(test_size=0.1, seed=7)
second = corpus.train_test_split(test_size=0.1)  # <-- S3
third = corpus.train_test_split(test_size=0.1, shuffle=False)
""",
    "a seed made of the rank, by a function": """\
def seed_all(number):
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def main():
    dist.barrier()
    me = dist.get_rank()
    seed_all(1234 + me)
    parts = torch.utils.data.random_split(everything, [9000, 1000])  # <-- S3


main()
""",
    "a common seed, by a function of another package": """\
from transformers import set_seed

dist.barrier()
set_seed(arguments.seed)
parts = torch.utils.data.random_split(everything, [9000, 1000])
""",
    "a seed for other numbers": """\
def seed_all(number):
    torch.manual_seed(number)


dist.barrier()
seed_all(3)
random.shuffle(urls)
mine = urls[dist.get_rank() :: dist.get_world_size()]  # <-- S3
""",
    "a common seed first, the rank's own later": """\
def seed_all(number):
    torch.manual_seed(number)


def main():
    dist.barrier()
    seed_all(0)
    parts = torch.utils.data.random_split(everything, [9000, 1000])
    seed_all(dist.get_rank())


main()
""",
    "rank 0 splits and sends the split": """\
def main():
    dist.barrier()
    parts = [None]
    if dist.get_rank() == 0:
        parts = [torch.utils.data.random_split(range(10000), [9000, 1000])]
    dist.broadcast_object_list(parts)


main()
""",
    "the process that starts the ranks splits": """\
def worker(rank, world_size, training):
    dist.barrier()


if __name__ == "__main__":
    training, held_out = torch.utils.data.random_split(everything, [9000, 1000])
    torch.multiprocessing.spawn(worker, args=(4, training), nprocs=4)
""",
    "each rank that was started splits": """\
def prepare():
    return torch.utils.data.random_split(everything, [9000, 1000])  # <-- S3


def worker(rank, world_size):
    dist.barrier()
    training, held_out = prepare()


if __name__ == "__main__":
    torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)
""",
    "a stream that shuffles its shards before it takes its part": """\
class Shards(IterableDataset):
    def __init__(self, urls, rank, world_size):
        self.urls, self.rank, self.world_size = list(urls), rank, world_size

    def __iter__(self):
        random.shuffle(self.urls)
        info = get_worker_info()
        mine = self.urls[self.rank :: self.world_size]  # <-- S3
        for url in mine[info.id :: info.num_workers]:
            yield from read(url)
""",
    "a stream that shuffles what it has taken": """\
class Shards(IterableDataset):
    def __init__(self, urls, rank, world_size):
        self.mine = sorted(urls)[rank::world_size]

    def __iter__(self):
        random.shuffle(self.mine)
        info = get_worker_info()
        for url in self.mine[info.id :: info.num_workers]:
            yield from read(url)
""",
    "a permutation of each rank, cut in blocks": """\
dist.barrier()
me, everyone = dist.get_rank(), dist.get_world_size()
order = np.random.permutation(len(samples))
each = len(samples) // everyone
begin = me * each
mine = order[begin : begin + each]  # <-- S3
""",
    "a permutation from a generator with one seed": """\
dist.barrier()
me, everyone = dist.get_rank(), dist.get_world_size()
generator = np.random.default_rng(epoch)
order = generator.permutation(len(samples))
mine = order[me::everyone]
own = np.random.default_rng(epoch + me)
order = own.permutation(len(samples))
mine = order[me::everyone]  # <-- S3
""",
    "a permutation of torch, from a generator with one seed": """\
dist.barrier()
generator = torch.Generator()
generator.manual_seed(epoch)
order = torch.randperm(count, generator=generator).tolist()
mine = order[dist.get_rank() :: dist.get_world_size()]
""",
    "an order that rank 0 sends": """\
dist.barrier()
order = torch.randperm(count, device=device)
dist.broadcast(order, 0)
mine = order[dist.get_rank() :: dist.get_world_size()]
""",
    "files found by a function, picked by their numbers": """\
from pathlib import Path


def tars(folder):
    return [str(path) for path in Path(folder).glob("*.tar")]


def main():
    dist.barrier()
    me, everyone = dist.get_rank(), dist.get_world_size()
    found = tars("/data")
    mine = [name for number, name in enumerate(found) if number % everyone == me]  # <-- S3


main()
""",
    "files that a walk collects": """\
import glob


def walk(top, tidy):
    found = []
    for folder, _, names in os.walk(top):
        for name in names:
            found.append(os.path.join(folder, name))
    return found


def orderly(top):
    found = []
    for folder, below, names in os.walk(top):
        below.sort()
        for name in sorted(names):
            found.append(os.path.join(folder, name))
    return found


dist.barrier()
rank, world_size = dist.get_rank(), dist.get_world_size()
first = walk("/data")[rank::world_size]  # <-- S3
second = orderly("/data")[rank::world_size]
third = glob.glob("/data/*.npy")
third.sort(key=len)
third = third[rank::world_size]
fourth = sorted(glob.glob("/data/*.npy"))[rank::world_size]
""",
}
NEWEST = {
    "the newest file, by a name for the list, and a path of parts": """\
path = os.path.join(folder, f"epoch_{epoch}.pt")
if rank == 0:
    torch.save(state, path)
found = sorted(Path(folder).glob("*.pt"))
newest = found[-1]  # <-- K7
""",
    "the newest file by its number, or by its time": """\
if rank == 0:
    torch.save(state, folder / f"{step}.pt")
newest = sorted(folder.glob("*.pt"), key=lambda path: int(path.stem))[-1]
other = max(folder.glob("*.pt"), key=os.path.getmtime)
""",
    "the best so far, by a metric that was computed on this rank": """\
for epoch in range(9):
    accuracy = evaluate(model, rank)
    if accuracy > best:
        best = accuracy
        torch.save(model.module.state_dict(), "best.pt")  # <-- K1
""",
}
APART = {
    "weights that rank 0 loads before the wrap, or sends to all": """\
model = build()
if rank == 0:
    model.load_state_dict(torch.load("weights.pt", map_location="cpu"))
model = DDP(model, device_ids=[local_rank])
""",
    "a schedule by a loss that was reduced, and by one of data that all ranks see": """\
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=8, sampler=sampler)
validation = DataLoader(val, batch_size=8)
model = DDP(build(), device_ids=[local_rank])
first = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
second = torch.optim.lr_scheduler.ReduceLROnPlateau(other)
for epoch in range(9):
    sampler.set_epoch(epoch)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch.to(device))
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    first.step(total)
    second.step(measure(model, validation))
""",
    "parameters that are frozen after the wrap, in a loop": """\
model = DDP(build(), device_ids=[local_rank])
for parameter in model.module.backbone.parameters():
    parameter.requires_grad_(False)  # <-- G1
""",
}
AVERAGES = {
    "means of batches, by Python's sum": """\
losses = []
for inputs, targets in validation:
    losses.append(F.cross_entropy(model(inputs), targets))
mean = torch.tensor(sum(losses) / len(losses), device=device)
dist.all_reduce(mean)  # <-- G6
""",
    "the worst of the ranks": """\
seconds = []
for inputs, targets in validation:
    seconds.append(run(inputs).mean())
mean = torch.stack(seconds).mean()
dist.all_reduce(mean, op=dist.ReduceOp.MAX)
""",
    "a sum shown, though another tensor is summed up in the same function": """\
def main():
    model = DDP(build(), device_ids=[local_rank])
    for inputs, targets in loader:
        loss = F.cross_entropy(model(inputs), targets.to(device))
        loss.backward()
        dist.all_reduce(loss)
        if rank == 0:
            wandb.log({"loss": loss})  # <-- O2
    right = (model(images) == targets).sum()
""",
    "noise of a generator that knows the rank": """\
torch.manual_seed(42)
own = torch.Generator(device).manual_seed(rank)
model = DDP(build(), device_ids=[local_rank])
for images in loader:
    noise = torch.randn(len(images), 128, device=device, generator=own)
    criterion(model(noise), images.to(device)).backward()
""",
}
LOCAL_RANKS = {
    "local rank 0 by another name, which calls a method that writes": """\
class Trainer:
    def __init__(self, model):
        self.gpu_id = int(os.environ.get("LOCAL_RANK", 0))
        self.model = DDP(model.to(self.gpu_id), device_ids=[self.gpu_id])

    def save(self, epoch):
        torch.save(self.model.module.state_dict(), f"{epoch}.pt")  # <-- K1

    def train(self, epochs):
        for epoch in range(epochs):
            self.epoch(epoch)
            if self.gpu_id == 0 and epoch % 10 == 0:
                self.save(epoch)
""",
    "local rank 0 as a flag, that sends the others back": """class Files:
    def __init__(self, args):
        self.number = args.local_rank
        self.first = not self.number

    def save(self, state, epoch):
        if not self.first:
            return
        torch.save(state, f"{epoch}.pt")  # <-- K1
""",
    "a number that is both where one node's ranks are spawned": """def work(gpu, count):
    dist.init_process_group("nccl", world_size=count, rank=gpu, timeout=limit)
    torch.cuda.set_device(gpu)
    model = DDP(build().cuda(gpu), device_ids=[gpu])
    train(model)
    if gpu == 0:
        torch.save(model.module.state_dict(), "model.pt")
    dist.destroy_process_group()


torch.multiprocessing.spawn(work, nprocs=8, args=(8,))
""",
    "a number that is a node's where several nodes spawn theirs": """def work(gpu, args):
    args.rank = args.node * 8 + gpu
    dist.init_process_group("nccl", world_size=args.world, rank=args.rank, timeout=limit)
    torch.cuda.set_device(gpu)
    model = DDP(build().cuda(gpu), device_ids=[gpu])
    train(model)
    if not gpu:
        torch.save(model.module.state_dict(), "model.pt")  # <-- K1
    dist.destroy_process_group()


torch.multiprocessing.spawn(work, nprocs=8, args=(args,))
""",
    "one rank of all, though first of its node": """\
rank, number = dist.get_rank(), int(os.environ.get("LOCAL_RANK", 0))
if number == 0:
    prepare()
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
""",
    "the local rank as the global one, by a function and another name": """\
def where():
    return int(os.environ.get("LOCAL_RANK", 0))


def main():
    rank = where()
    world = int(os.environ.get("WORLD_SIZE", 1))
    part = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=False)  # <-- S1
    loader = DataLoader(dataset, batch_size=8, sampler=part)


main()
""",
    "the local rank of the arguments": """\
import argparse


def start(args):
    limit = timedelta(minutes=args.minutes)
    dist.init_process_group(
        "nccl", timeout=limit, world_size=args.world_size, rank=args.local_rank  # <-- D10
    )
    try:
        work(args)
    finally:
        dist.destroy_process_group()


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
start(parser.parse_args())
""",
    "the global rank computed from the local one": """\
def start(args):
    local_rank = int(os.environ.get("SLURM_LOCALID", 0))
    rank = args.node * args.gpus + local_rank
    limit = timedelta(minutes=args.minutes)
    dist.init_process_group("nccl", timeout=limit, world_size=args.world_size, rank=rank)
    part = DistributedSampler(
        dataset, num_replicas=args.world_size, rank=args.node * 8 + local_rank, shuffle=False
    )
    loader = DataLoader(dataset, batch_size=8, sampler=part)
    os.environ["RANK"] = str(args.node * args.gpus + local_rank)
    dist.destroy_process_group()
""",
    "ranks of one node that the program starts": """\
def worker(local_rank, ranks):
    limit = timedelta(minutes=settings.minutes)
    dist.init_process_group("nccl", timeout=limit, rank=local_rank, world_size=ranks)
    part = DistributedSampler(dataset, ranks, local_rank, shuffle=False)
    loader = DataLoader(dataset, batch_size=8, sampler=part)
    mine = sorted(names)[local_rank::ranks]
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    torch.multiprocessing.spawn(worker, args=(count,), nprocs=count)
""",
    "a share of what a node has, and one of the whole": """\
local_rank = int(os.environ.get("LOCAL_RANK", 0))
local_world = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
world_size = dist.get_world_size()
part = DistributedSampler(local_files, local_world, local_rank, shuffle=False)
loader = DataLoader(local_files, batch_size=8, sampler=part)
first = names[local_rank::local_world]
second = names[local_rank::world_size]  # <-- S1
""",
    "a rank that is the local one in one case only": """\
if "RANK" in os.environ:
    rank = int(os.environ.get("RANK", 0))
else:
    rank = int(os.environ.get("LOCAL_RANK", 0))
part = DistributedSampler(dataset, dist.get_world_size(), rank, shuffle=False)
loader = DataLoader(dataset, batch_size=8, sampler=part)
""",
    "GPUs hidden by a process, and asked for by number": """\
def hide():
    os.environ["CUDA_VISIBLE_DEVICES"] = f"{int(os.environ.get('LOCAL_RANK', 0))}"


def main():
    hide()
    mine = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device(f"cuda:{mine}")  # <-- D6
    model = build().to(device)
    model = DDP(model, device_ids=[mine])  # <-- D6


main()
""",
    "GPUs hidden by a process, and a number that fits": """\
mine = int(os.environ.get("LOCAL_RANK", 0))
os.environ["CUDA_VISIBLE_DEVICES"] = str(mine)
mine = 0
torch.cuda.set_device(mine)
model = DDP(build().to(mine), device_ids=[mine])
""",
    "GPUs that somebody names, and numbers among them": """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--gpus", default="0,1,2,3")
args = parser.parse_args()
os.environ["CUDA_VISIBLE_DEVICES"] = str(args.gpus)
local_rank = int(os.environ.get("LOCAL_RANK", 0))
torch.cuda.set_device(local_rank)
""",
    "GPUs hidden, and a number that is brought back into range": """\
local_rank = int(os.environ.get("LOCAL_RANK", 0))
os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)
torch.cuda.set_device(local_rank % torch.cuda.device_count())
""",
}
ALONE = {
    "out of memory, told by its text, around a function that trains": """\
def turn(network, batch):
    value = network(batch)
    value.backward()
    return value


network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    try:
        turn(network, batch)
    except RuntimeError as problem:  # <-- G10
        if "out of memory" in str(problem):
            torch.cuda.empty_cache()
            continue
        else:
            raise problem
    optimizer.step()
""",
    "out of memory ends the program": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    try:
        network(batch).backward()
    except RuntimeError as problem:
        if "out of memory" in str(problem):
            torch.cuda.memory_summary()
        raise
    optimizer.step()
""",
    "a forward that lacks memory": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    try:
        value = network(batch)
    except torch.cuda.OutOfMemoryError:  # <-- G10
        continue
    value.backward()
    optimizer.step()
""",
    "a loss decides whether to go backward": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    total_loss = network(batch)
    value = total_loss.item()  # <-- O4
    if total_loss.item() < 50.0:  # <-- G10
        total_loss.backward()
        optimizer.step()
""",
    "a loss ends the training of one rank": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    loss = criterion(network(batch))
    loss.backward()
    optimizer.step()
    if float(loss) < goal:  # <-- G10
        break
""",
    "a loss that all ranks know": """\
def mean_of_ranks(value):
    value = value.detach().clone()
    dist.all_reduce(value, dist.ReduceOp.AVG)
    return value


network = DDP(build(), device_ids=[local_rank])


def epoch():
    for batch in loader:
        optimizer.zero_grad()
        own = criterion(network(batch))
        own.backward()
        optimizer.step()
        loss = mean_of_ranks(own)
        if loss < goal:
            break


epoch()
""",
    "a loss decides what is reported after the step": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    loss = criterion(network(batch))
    loss.backward()
    optimizer.step()
    if loss < 3:
        continue
    report(loss)
""",
    "a weight of a loss is a setting": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    loss, extra_loss = network(batch)
    if settings.extra_loss > 0:
        loss = loss + settings.extra_loss * extra_loss
    if scaled_loss is not None:
        scaled_loss(loss).backward()
    else:
        loss.backward()
    optimizer.step()
""",
    "a draw that decides between two ways to train": """\
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    if np.random.rand() < 0.5:
        network(batch).backward()
    else:
        network(mixed(batch)).backward()
    if np.random.rand() < 0.5:  # <-- G10
        regularized(network).backward()
    optimizer.step()
""",
    "a draw with a common seed": """\
torch.manual_seed(3)
network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    if torch.rand(1) < 0.1:
        continue
    optimizer.zero_grad()
    network(batch).backward()
    optimizer.step()
""",
    "an hour by the clock, in a function": """\
import argparse


def over(began, limit):
    return time.monotonic() - began >= limit


def main(options):
    network = DDP(build(), device_ids=[local_rank])
    began = time.monotonic()
    for epoch in range(options.epochs):
        for batch in loader:
            optimizer.zero_grad()
            network(batch).backward()
            optimizer.step()
        if over(began, options.limit):  # <-- K8
            return


main(argparse.ArgumentParser().parse_args())
""",
    "as long as there is time": """\
network = DDP(build(), device_ids=[local_rank])
deadline = time.time() + 3600
while time.time() < deadline:  # <-- K8
    optimizer.zero_grad()
    network(next(batches)).backward()
    optimizer.step()
""",
    "all wait where the clock of one says so": """\
def save(step):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save({"step": step}, "last.pt")


network = DDP(build(), device_ids=[local_rank])
saved = time.monotonic_ns()
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    network(batch).backward()
    optimizer.step()
    wanted = time.monotonic_ns() - saved > 3600e9 or step % 1000 == 0
    if wanted:  # <-- K8
        save(step)
        saved = time.monotonic_ns()
    if time.time() - begun > 60:
        report(step)
""",
    "rank 0 reads the clock for all": """network = DDP(build(), device_ids=[local_rank])
saved = time.time()
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    network(batch).backward()
    optimizer.step()
    late = torch.tensor(time.time() - saved > 3600, device=device)
    dist.broadcast(late, 0)
    if late:
        dist.barrier()
        saved = time.time()
    if time.time() - saved > 60 and dist.get_rank() == 0:
        dist.send(late, 1)
""",
    "a clock for reports": """\
network = DDP(build(), device_ids=[local_rank])
last = time.time()
for number, batch in enumerate(loader):
    optimizer.zero_grad()
    network(batch).backward()
    optimizer.step()
    if time.time() - last > 60 and dist.get_rank() == 0:
        last = time.time()
        report(number)
    if number > steps:
        break
""",
    "a clock that waits for a file": """\
network = DDP(build(), device_ids=[local_rank])
begin = time.time()
while time.time() - begin < 60:
    if os.path.exists("ready"):
        break
for batch in loader:
    optimizer.zero_grad()
    network(batch).backward()
    optimizer.step()
""",
}
OUTPUT = {
    "a method of the class itself, which another class has too": """\
class Texts:
    def write(self, files):
        for number, file in enumerate(files):
            print(number)


class Report:
    def step(self, loss):
        self.write(loss)

    def write(self, row):
        history.append(row)


def train(report, model):
    for inputs, targets in loader:
        loss = F.cross_entropy(model(inputs.to(device)), targets.to(device))
        loss.backward()
        report.step(loss)


train(Report(), DDP(build(), device_ids=[local_rank]))
""",
    "a function that a helper of rank 0 gets": """\
def save(writer, state, path):
    def write(copies):
        torch.save(copies, path)

    writer.start(state, write)
""",
    "gradients of a wrapped model are averaged by hand, in a function": """\
def average(network):
    for name, weight in network.named_parameters():
        if weight.grad is not None:
            dist.all_reduce(weight.grad.data, op=dist.ReduceOp.SUM)  # <-- G1
            weight.grad.data /= dist.get_world_size()


network = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    network(batch).backward()
    average(network)
    optimizer.step()
""",
    "gradients of a bare model, and norms": """\
network = build()
wrapped = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    (network(batch) + wrapped(batch)).backward()
    for weight in network.parameters():
        dist.all_reduce(weight.grad)
        weight.grad.div_(dist.get_world_size())
    for weight in wrapped.parameters():
        biggest = weight.grad.abs().max()
        dist.all_reduce(biggest, dist.ReduceOp.MAX)
    optimizer.step()
""",
    "gradients that are reduced after no_sync": """\
network = DDP(build(), device_ids=[local_rank])
with network.no_sync():
    for batch in batches:
        network(batch).backward()
for weight in network.parameters():
    dist.all_reduce(weight.grad, op=dist.ReduceOp.AVG)
""",
    "numbers that are unpacked from a list with a name": """\
place = [int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
me, mine, everyone = place
os.environ.setdefault("RANK", "0")
torch.cuda.set_device(mine)
network = build().to(f"cuda:{me}")  # <-- D4
""",
    "folders that ranks make": """\
from pathlib import Path


def folders(root, me):
    (Path(root) / f"rank{me}").mkdir()
    Path(root, "all").mkdir(parents=True, exist_ok=True)
    Path(root, "first").mkdir(parents=True)  # <-- O5
    if me == 0:
        Path(root, "own").mkdir()
    try:
        os.makedirs(os.path.join(root, "tried"))
    except FileExistsError:
        pass


def main():
    folders("results", dist.get_rank())


main()
""",
    "a folder that is made before ranks are started": """\
def work(rank):
    dist.barrier()


if __name__ == "__main__":
    os.makedirs("results")
    torch.multiprocessing.spawn(work, nprocs=4)
""",
    "texts that ranks write": """\
from pathlib import Path


def note(name, text):
    with open(name, "w") as file:
        file.write(text)


def main():
    me = dist.get_rank()
    if me == 0:
        note("first.txt", "begun")
    with open(f"log-{me}.txt", "w") as file:
        file.write("begun")
    with Path("all.txt").open("w") as file:  # <-- O1
        file.write("begun")


main()
""",
    "sums of losses, shown with a divisor and without one": """\
network = DDP(build(), device_ids=[local_rank])


def first(inputs):
    loss = network(inputs).detach()
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(f"{loss.item() / dist.get_world_size():.3f}")


def second(inputs):
    total_loss = network(inputs).detach() / dist.get_world_size()
    dist.all_reduce(total_loss)
    if dist.get_rank() == 0:
        print(total_loss.item())


def third(inputs):
    total_loss = network(inputs).detach()
    dist.all_reduce(total_loss, op=dist.ReduceOp.SUM)
    if dist.get_rank() == 0:
        print(f"{total_loss.item():.3f}")  # <-- O2
""",
}
STARTED = {
    "the seed of ranks that this file starts": """\
from torch import multiprocessing


def main():
    torch.manual_seed(7)
    multiprocessing.spawn(work, nprocs=2)


def seed_all(number):
    torch.manual_seed(number)  # <-- S6


def work(local_rank):
    seed_all(7)
    model = DDP(nn.Dropout(build()).to(device), device_ids=[local_rank])
""",
    "a helper that only the parent calls": """\
from torch import multiprocessing


def seed_all(number):
    torch.manual_seed(number)


def main():
    seed_all(7)
    multiprocessing.spawn(work, nprocs=2)


def work(local_rank):
    model = DDP(nn.Dropout(build()).to(device), device_ids=[local_rank])
""",
    "weights in a variable first": """\
optimizer = torch.optim.AdamW(model.parameters())
model = DDP(build(), device_ids=[local_rank])
weights = model.module.state_dict()
state = {"weights": weights, "step": step}  # <-- K3
""",
    "a schedule built anew at the saved epoch": """\
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, last_epoch=first_epoch - 1)
model = DDP(build(), device_ids=[local_rank])
weights = model.module.state_dict()
state = {"weights": weights, "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
""",
    "a schedule built anew, at no epoch": """\
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, last_epoch=-1)
model = DDP(build(), device_ids=[local_rank])
weights = model.module.state_dict()
state = {"weights": weights, "optimizer": optimizer.state_dict(), "epoch": epoch + 1}  # <-- K3
""",
    "moved once more, to where it is": """\
network = build().to(device)
network = DDP(network, device_ids=[local_rank]).to(device)
other = build()
other.cuda()
other = DDP(other, device_ids=[local_rank])
other.cuda()
third = DDP(build().to(device), device_ids=[local_rank])
third.to(device)
""",
    "moved elsewhere": """\
network = build().to("cpu")
network = DDP(network).to(device)  # <-- D1
""",
    "ranks that share out a layer draw the same": """\
from torch.distributed.tensor.parallel import parallelize_module

torch.manual_seed(7)
model = parallelize_module(nn.Dropout(build()), mesh, plan)
dist.barrier()
""",
    "a CPU to load on, and GPUs to train on": """\
assert dist.is_available()
dist.init_process_group("nccl", timeout=limit, device_id=device)
model = nn.SyncBatchNorm.convert_sync_batchnorm(build().cuda(local_rank))
saved = torch.load(path, map_location="cpu", weights_only=True)
model = DDP(model, device_ids=[local_rank])
dist.destroy_process_group()
""",
    "the variable that hides the others is the local rank's own": """\
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["SLURM_LOCALID"]
device = torch.device("cuda:0")
model = DDP(build().to(device))
""",
    "errors of a load, passed over and not": """\
def passed_over():
    global_step = 0
    try:
        saved = torch.load("newest.pt", map_location="cpu", weights_only=True)
        global_step = saved["step"]
    except:  # <-- K7
        print("nothing to go on from")


def other():
    try:
        best = torch.load("best.pt", map_location="cpu", weights_only=True)
        iterator = iter(best)
    except Exception:
        print("no best")


def told():
    try:
        saved = torch.load("newest.pt", map_location="cpu", weights_only=True)
        step = saved["step"]
    except Exception as error:
        raise SystemExit(f"newest.pt: {error}") from error
    try:
        saved = torch.load("best.pt", map_location="cpu", weights_only=True)
        best_step = saved["step"]
    except FileNotFoundError:
        best_step = 0


dist.barrier()
""",
    "samples drawn alike, and not": """\
class Alike:
    def __init__(self, seed):
        self.generator = torch.Generator()
        self.generator.manual_seed(seed)
        self.model = DDP(build(), device_ids=[local_rank])

    def batch(self, texts, seed, step):
        first = [texts[n] for n in random.Random(seed + step).sample(range(100), 8)]  # <-- S1
        places = torch.randperm(len(texts), generator=self.generator)  # <-- S1
        kinds = torch.randint(9, (8,), generator=self.generator)
        return first, texts[places[:8]], kinds

    def train(self, texts):
        for step in range(100):
            optimizer.zero_grad()
            self.model(self.batch(texts, 7, step)).backward()
            optimizer.step()
""",
    "samples drawn alike, of which each rank takes its own": """\
model = DDP(build(), device_ids=[local_rank])
for step in range(100):
    chosen = torch.randperm(len(texts), generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    model(texts[chosen[rank::world_size]]).backward()
    optimizer.step()
""",
    "samples drawn with the rank": """\
own = np.random.default_rng(100 * dist.get_rank())
model = DDP(build(), device_ids=[local_rank])
for step in range(100):
    optimizer.zero_grad()
    model(texts[own.integers(len(texts), size=8)]).backward()
    optimizer.step()
""",
    "rank 0 leaves a loop": """\
model = DDP(build(), device_ids=[local_rank])
rank = dist.get_rank()
for inputs in loader:
    optimizer.zero_grad()
    model(inputs).backward()
    optimizer.step()
    if rank == 0:
        for path in Path("runs").iterdir():
            if path.name == "stop":
                break
    if rank == 0:
        if Path("stop").exists():
            break  # <-- K8
    if rank == 0 and Path("stop").exists():
        dist.broadcast(torch.ones((), device=device), src=0)
        break
    enough = torch.tensor(Path("stop").exists(), device=device)
    dist.broadcast(enough, src=0)
    if enough:
        break
""",
    "the place is part of the name": """\
model = DDP(build(), device_ids=[local_rank])


def save(step):
    state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    if dist.get_rank() == 0:
        torch.save(state, f"{step:08d}.pt")


optimizer.load_state_dict(saved["optimizer"])
""",
    "others wait for the download": """\
if local_rank != 0:
    dist.barrier()
images = torchvision.datasets.CIFAR10("data", download=local_rank == 0)
if local_rank == 0:
    dist.barrier()
""",
    "the end of a window has a name, and each epoch calls a function": """\
model = DDP(build(), device_ids=[local_rank])


def one_epoch():
    for number, inputs in enumerate(loader):
        ends = (number + 1) % 4 == 0  # <-- G5
        if ends:
            model(inputs).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with model.no_sync():
                model(inputs).backward()


for epoch in range(3):
    one_epoch()
""",
    "one of two halves, and other data": """\
class Halves:
    def __init__(self, folder, training):
        names = os.listdir(folder)
        self.names = names[:90] if training else names[90:]
        self.kinds = sorted(os.listdir(folder))

    def __getitem__(self, index):
        return read(self.names[index]), self.kinds[0]  # <-- S3


class Alone(Halves):
    def __getitem__(self, index):
        return read(self.names[index])


shared = Halves("recordings", True)
loader = DataLoader(shared, sampler=DistributedSampler(shared, shuffle=False))
measured = DataLoader(Alone("recordings", False))
""",
    "a parameter that nothing uses, and DDP looks for such": """\
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))


model = DDP(Scaled().to(device), find_unused_parameters=wanted)
""",
}
SCHEDULES = {
    "a schedule of a class, advanced once per epoch": """\
class Trainer:
    def __init__(self, loader, epochs):
        self.model = DDP(build(), device_ids=[local_rank])
        self.loader, self.epochs = loader, epochs
        self.optimizer = torch.optim.SGD(self.model.parameters())
        total = len(self.loader) * self.epochs
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=total)

    def train_epoch(self):
        for inputs, targets in self.loader:
            F.cross_entropy(self.model(inputs), targets).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def fit(self):
        for epoch in range(self.epochs):
            self.train_epoch()
            self.scheduler.step()  # <-- G8
""",
    "a schedule of micro-batches, in a branch of its own": """\
model = DDP(build(), device_ids=[local_rank])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader))
for i, (inputs, targets) in enumerate(loader):
    last = (i + 1) % steps == 0 or i + 1 == len(loader)
    with nullcontext() if last else model.no_sync():
        (F.cross_entropy(model(inputs), targets) / steps).backward()
    if (i + 1) % steps == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
    if scheduled:
        scheduler.step()
""",
    "an epoch's end, told in the loop over its steps": """\
model = DDP(build(), device_ids=[local_rank])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
for i, (inputs, targets) in enumerate(loader):
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
    if i == len(loader) - 1:
        scheduler.step()
""",
    "epochs in a while loop": """\
model = DDP(build(), device_ids=[local_rank])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
epoch = 0
while epoch < args.epochs:
    for inputs, targets in loader:
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()
    epoch += 1
""",
    "a schedule of Transformers, in micro-batches": """\
from transformers import get_linear_schedule_with_warmup

model = DDP(build(), device_ids=[local_rank])
scheduler = get_linear_schedule_with_warmup(optimizer, 100, epochs * len(train_loader))
for i, batch in enumerate(train_loader):
    last = (i + 1) % accumulation == 0 or i + 1 == len(train_loader)
    with nullcontext() if last else model.no_sync():
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()  # <-- G2
    if (i + 1) % accumulation == 0 or i + 1 == len(train_loader):
        optimizer.step()
        scheduler.step()  # <-- G8
        optimizer.zero_grad()
""",
    "a window whose loss and schedule are divided elsewhere": """\
def loss_of(outputs, targets, steps):
    return F.cross_entropy(outputs, targets) * (1 / steps)


model = DDP(build(), device_ids=[local_rank])
updates = -(-len(loader) // steps) * epochs
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
for i, (inputs, targets) in enumerate(loader):
    last = (i + 1) % steps == 0 or i + 1 == len(loader)
    with nullcontext() if last else model.no_sync():
        loss = loss_of(model(inputs), targets, steps)
        scaler.scale(loss).backward()
    if (i + 1) % steps == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
""",
    "micro-batches that are divided in the gradients": """\
model = DDP(build(), device_ids=[local_rank])
for i, (inputs, targets) in enumerate(loader):
    last = (i + 1) % steps == 0 or i + 1 == len(loader)
    with nullcontext() if last else model.no_sync():
        F.cross_entropy(model(inputs), targets).backward()
    if (i + 1) % steps == 0 or i + 1 == len(loader):
        for parameter in model.parameters():
            parameter.grad /= steps
        optimizer.step()
        optimizer.zero_grad()
""",
    "steps counted in the batches of all ranks": """\
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=args.batch_size // dist.get_world_size(), sampler=sampler)
model = DDP(build(), device_ids=[local_rank])
total = len(dataset) // args.batch_size
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=total)
sampler.set_epoch(epoch)
for inputs, targets in loader:
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
""",
    "gradients switched off by who calls": """\
def measure(model, loader):
    model.eval()
    total = torch.zeros((), device=device)
    for inputs, targets in loader:
        total += F.cross_entropy(model(inputs.to(device)), targets.to(device))
    model.train()
    return total


model = DDP(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)).to(device))
with torch.no_grad():
    measure(model, validation)
""",
    "warmed up before a graph is recorded": """\
model = DDP(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)).to(device))
model.eval()
for _ in range(10):
    model(example)
""",
}
FORMER_NAMES = {
    "a part of the model, by its name before the wrap": """\
network = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).to(device)
model = DDP(network, device_ids=[local_rank])
for parameter in network[0].parameters():
    parameter.requires_grad = False  # <-- G1
""",
    "frozen before the wrap": """\
network = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).to(device)
for parameter in network[0].parameters():
    parameter.requires_grad = False
model = DDP(network, device_ids=[local_rank])
""",
    "the bare model where there is no DDP": """\
network = build().to(device)
if world_size > 1:
    model = DDP(network, device_ids=[local_rank])
else:
    model = network
for inputs, targets in loader:
    inputs, targets = inputs.to(device), targets.to(device)
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "the bare model where nothing is learnt": """\
network = build().to(device)
model = DDP(network, device_ids=[local_rank])
for inputs, targets in loader:
    inputs, targets = inputs.to(device), targets.to(device)
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        average.update(network(inputs))
""",
    "weights that rank 0 changes and sends": """\
model = DDP(build(), device_ids=[local_rank])
if dist.get_rank() == 0:
    model.module.head.weight.clamp_(-1, 1)
for parameter in model.parameters():
    dist.broadcast(parameter, 0)
""",
    "a sum of means that is divided": """\
mean = total / count
dist.all_reduce(mean)
mean /= dist.get_world_size()
print_once(mean.item())
""",
    "a mean that the reduction computes": """\
mean = total / count
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
metrics["validation"] = mean.item()
""",
    "a share of a mean over all": """\
count = torch.tensor(float(len(targets)), device=device)
dist.all_reduce(count)
mean = total / count
dist.all_reduce(mean)
metrics["validation"] = mean.item()
""",
    "a mean that was divided by the ranks before": """\
W = dist.get_world_size()
mean = mean / W
dist.all_reduce(mean)
metrics["validation"] = mean.item()
""",
    "a split with one seed for all ranks": """\
torch.manual_seed(0)
train, held_out = torch.utils.data.random_split(dataset, [900, 100])
sampler = DistributedSampler(train)
sampler.set_epoch(epoch)
loader = DataLoader(train, sampler=sampler)
""",
    "a split after each rank has its own seed": """\
torch.manual_seed(0)
model = DDP(build(), device_ids=[local_rank])
torch.manual_seed(rank)
train, held_out = torch.utils.data.random_split(dataset, [900, 100])  # <-- S3
sampler = DistributedSampler(train)
sampler.set_epoch(epoch)
loader = DataLoader(train, sampler=sampler)
""",
    "an epoch that is told in an endless loop": """\
sampler = DistributedSampler(dataset)
train_loader = DataLoader(dataset, sampler=sampler)
model = DDP(build(), device_ids=[local_rank])
for step in range(steps):
    if step % len(train_loader) == 0:
        sampler.set_epoch(step // len(train_loader))
        batches = iter(train_loader)
    inputs, targets = next(batches)
    F.cross_entropy(model(inputs.to(device)), targets.to(device)).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "adapters, beside weights that are elsewhere": """\
saved = torch.load("run.pt", map_location="cpu", weights_only=True)
model.load_state_dict(saved["lora"], strict=False)
optimizer.load_state_dict(saved["optimizer"])
""",
    "a place that nothing reads, beside a scaler": """\
scaler = torch.amp.GradScaler("cuda")
model = DDP(build(), device_ids=[local_rank])
saved = torch.load("run.pt", map_location="cpu", weights_only=True)
model.module.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
scaler.load_state_dict(saved["scaler"])
for inputs, targets in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = F.cross_entropy(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
parts = {  # <-- K3
    "model": model.module.state_dict(),
    "optimizer": optimizer.state_dict(),
    "scaler": scaler.state_dict(),
    "epoch": epoch,
}
""",
    "sums on the device that are saved and not restored": """\
class Run:
    def step(self, loss, count):
        self.loss += loss
        self.count += count

    def snapshot(self):
        return {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step_number,
            "loss": self.loss.detach().cpu().clone(),  # <-- K3
            "count": int(self.count.item()),  # <-- K3
        }

    def restore(self, saved):
        self.model.module.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step_number = saved["step"]
""",
    "a place that is taken over with all the rest": """\
model = DDP(build(), device_ids=[local_rank])
saved = torch.load("run.pt", map_location="cpu", weights_only=True)
optimizer.load_state_dict(saved.pop("optimizer"))
model.module.load_state_dict(saved.pop("model"))
progress.update(saved)
parts = {
    "model": model.module.state_dict(),
    "optimizer": optimizer.state_dict(),
    "epoch": progress["next"],
}
""",
    "a sum that rank 0 alone decides by, and tells": """\
def evaluate(loader):
    total = torch.zeros((), device=device)
    for batch in loader:
        total += loss_of(batch)
    dist.all_reduce(total)
    return total.item()


model = DDP(build(), device_ids=[local_rank])
for epoch in range(epochs):
    for inputs, targets in loader:
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    if evaluate(validation) > limit:
        break
""",
}
BY_HAND = {
    "gradients that are averaged by hand": """\
dist.init_process_group("nccl", timeout=timedelta(minutes=settings.minutes))
sampler = DistributedSampler(dataset)
sampler.set_epoch(epoch)
model = build().to(device)
for inputs, targets in DataLoader(dataset, sampler=sampler):
    F.cross_entropy(model(inputs.to(device)), targets.to(device)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
""",
    "DDP that a partial function makes": """\
from functools import partial

dist.init_process_group("nccl", timeout=timedelta(minutes=settings.minutes))
wrap = partial(DDP, device_ids=[local_rank])
sampler = DistributedSampler(dataset)
sampler.set_epoch(epoch)
model = wrap(build().to(device))
for inputs, targets in DataLoader(dataset, sampler=sampler):
    F.cross_entropy(model(inputs.to(device)), targets.to(device)).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
""",
    "gradients that are averaged by the loss": """\
for inputs, targets in loader:
    loss = F.cross_entropy(model(inputs.to(device)), targets.to(device)) / world_size
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
""",
    "all but the last micro-batch without a reduction": """\
model = DDP(build(), device_ids=[local_rank])
for batch in loader:
    first, last = batch
    with model.no_sync():
        (F.cross_entropy(model(first.inputs), first.targets) / 2).backward()
    (F.cross_entropy(model(last.inputs), last.targets) / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "the last micro-batch in a function of its own": """\
def finish(batch):
    (F.cross_entropy(model(batch.inputs), batch.targets) / 2).backward()


model = DDP(build(), device_ids=[local_rank])
for first, last in loader:
    with model.no_sync():
        (F.cross_entropy(model(first.inputs), first.targets) / 2).backward()
    finish(last)
    optimizer.step()
    optimizer.zero_grad()
""",
    "an evaluation in float16": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
    outputs = model(example)
""",
    "what the other ranks need not do": """\
model = DDP(build(), device_ids=[local_rank])
for epoch in range(epochs):
    for inputs, targets in loader:
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() != 0:
        continue
    print("epoch", epoch)
""",
    "a reduction that is waited for": """\
work = dist.all_reduce(correct, async_op=True)
prepare()
work.wait()
accuracy = correct.item() / count
""",
    "a place for each rank's object": """\
names = [None] * dist.get_world_size()
dist.all_gather_object(names, name)
""",
    "a subset that all ranks draw alike": """\
indices = random.Random(0).sample(range(len(dataset)), 1000)
part = torch.utils.data.Subset(dataset, indices)
sampler = DistributedSampler(part)
sampler.set_epoch(epoch)
loader = DataLoader(part, sampler=sampler)
""",
}
SHARDED = {
    "shared out by a function, behind the optimizer": """\
def share_out(model):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)


torch.manual_seed(0)
model = build().to(device)
optimizer = torch.optim.AdamW(model.parameters())  # <-- F1
share_out(model)
""",
    "an optimizer of another model": """\
torch.manual_seed(0)
critic = build().to(device)
optimizer = torch.optim.AdamW(critic.parameters())
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
""",
    "weights that all ranks load": """\
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
torch.distributed.checkpoint.state_dict.set_model_state_dict(model, weights, options)
""",
    "each child by a function that calls itself": """\
def share_out(part):
    for child in part.children():
        share_out(child)
    fully_shard(part)


torch.manual_seed(0)
share_out(build().to(device))
""",
    "weights that are loaded where they lie": """\
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
torch.distributed.checkpoint.load({"model": model}, checkpoint_id="pretrained")
""",
    "weights of no seed at all": """\
model = build().to(device)
for block in model.blocks:
    fully_shard(block)  # <-- F8
fully_shard(model)
""",
    "a norm that ranks put together": """\
squares = [weight.grad.to_local().pow(2).sum() for weight in model.parameters()]
total = torch.stack(squares).sum()
dist.all_reduce(total)
""",
    "another network on all ranks but one": """\
model = DDP(build(), device_ids=[local_rank])
if dist.get_rank() == 0:
    network = model
else:
    network = model.module
for inputs, targets in loader:
    inputs, targets = inputs.to(device), targets.to(device)
    F.cross_entropy(network(inputs), targets).backward()  # <-- G1
    optimizer.step()
    optimizer.zero_grad()
""",
    "what is restored by names of arguments": """\
torch.manual_seed(0)
found = {"epoch": 0, "best": 0.0}
restore(path, into=found, model=model, optimizer=optimizer, schedule=schedule)
for epoch in range(found["epoch"], epochs):
    train(epoch)
    found["best"] = max(found["best"], evaluate())
    state = {
        "epoch": epoch + 1,
        "best": found["best"],
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
    }
dist.barrier()
""",
    "rank 0 keeps what all have put together": """\
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

torch.manual_seed(0)
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
if dist.get_rank() == 0:
    torch.save(weights, "weights.tmp")
    os.replace("weights.tmp", "weights.pt")
""",
    "the class of FSDP1, made around the model": """\
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

torch.manual_seed(0)
model = build().to(device)
optimizer = torch.optim.AdamW(model.parameters())  # <-- F1
model = FSDP(model, use_orig_params=True)
weights = model.state_dict()
if dist.get_rank() == 0:
    torch.save(weights, f"step-{step}.pt")
    torch.save(model.state_dict(), f"last-{step}.pt")  # <-- F4
""",
    "rank 0 alone puts a weight together": """\
torch.manual_seed(0)
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
if dist.get_rank() == 0:
    print(model.head.weight.full_tensor().norm())  # <-- F4
""",
}
STEPS = {
    "a trainer that calls the model that it wrapped": """\
class Trainer:
    def __init__(self, model):
        self.model = model.to(device)
        self.wrapped = DDP(self.model, device_ids=[local_rank])
        for p in self.wrapped.parameters():
            p.data += 0.01 * torch.randn_like(p)  # <-- G1
        self.wrapped.module.head.reset_parameters()  # <-- G1

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(inputs), targets.to(device))  # <-- G1
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train(self):
        for inputs, targets in self.loader:
            self.step(inputs, targets)


torch.manual_seed(dist.get_rank())
""",
    "a trainer that keeps the name": """\
class Trainer:
    def __init__(self, model):
        self.model = model.to(device)
        self.model = DDP(self.model, device_ids=[local_rank])
        self.model.module.head.reset_parameters()

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(inputs), targets.to(device))
        loss.backward()
        self.optimizer.step()
        return loss.detach()


torch.manual_seed(0)
""",
    "files in the order of a disk, or of a draw, that another package reads": """\
files = os.listdir("data")
train_set = reader.Images(files)  # <-- S3
loader = DataLoader(train_set, sampler=DistributedSampler(train_set, shuffle=False))
order = sorted(os.listdir("data"))
random.shuffle(order)
shuffled = reader.Images(paths=order)  # <-- S3
loader = DataLoader(shuffled, sampler=DistributedSampler(shuffled, shuffle=False))
""",
    "files that are sorted": """\
files = sorted(os.listdir("data"))
train_set = reader.Images(files)
loader = DataLoader(train_set, sampler=DistributedSampler(train_set, shuffle=False))
""",
    "shares of a node, by the local rank": """\
local_rank, rank = int(os.environ.get("LOCAL_RANK", 0)), dist.get_rank()
count = torch.cuda.device_count()
sampler = DistributedSampler(dataset, num_replicas=count, rank=local_rank)  # <-- S1
loader = DataLoader(dataset, sampler=sampler)
""",
    "the GPU that is current, on every rank": """\
local_rank = int(os.environ.get("LOCAL_RANK", 0))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = DDP(build().to(device))  # <-- D5
print(local_rank)
""",
    "the GPU of the local rank": """\
local_rank = int(os.environ.get("LOCAL_RANK", 0))
device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
model = DDP(build().to(device))
""",
    "noise that each rank draws for itself": """\
torch.manual_seed(dist.get_rank())
model = DDP(build(), device_ids=[local_rank])
for batch in loader:
    optimizer.zero_grad()
    model(batch).backward()
    optimizer.step()
    for p in model.parameters():
        p.data.add_(torch.randn_like(p) * 1e-4)  # <-- G1
""",
    "noise that all ranks draw alike": """\
torch.manual_seed(0)
model = DDP(build(), device_ids=[local_rank])
for p in model.parameters():
    p.data.add_(torch.randn_like(p) * 1e-4)
""",
    "a loss for the log, and sums in other places": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets.to(device))
    dist.all_reduce(loss)
    loss = loss / world_size  # <-- G2
    loss.backward()
    optimizer.step()
    correct = (outputs.argmax(1) == labels).sum()
""",
    "what is kept without its graph, or goes backward": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets.to(device))
    total = sum(parts)
    loss.backward()
    optimizer.step()
    loss = loss.detach()
    history.append(loss)
    seen += len(inputs)
""",
    "parts of all ranks, for a number that nobody learns from": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = F.cross_entropy(outputs, targets.to(device))
    loss.backward()
    optimizer.step()
    parts = [torch.empty_like(outputs) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, outputs)
""",
    "weights in float16 for an evaluation": """\
model = DDP(build().to(device), device_ids=[local_rank])
fast = build().to(device).half()
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets.to(device)).backward()
    optimizer.step()
""",
    "an average of the weights that rank 0 alone uses": """\
average = torch.optim.swa_utils.AveragedModel(model.module)
if dist.get_rank() == 0:
    average.update_parameters(model.module)
    accuracy = evaluate(average, validation)
""",
    "a thread that somebody waits for": """\
weights = {name: value.clone() for name, value in model.state_dict().items()}
saver = threading.Thread(target=torch.save, args=(weights, path), daemon=True)
saver.start()
saver.join()
""",
    "a file that all ranks read after they have met": """\
def wait_for_all():
    dist.barrier()


if dist.get_rank() == 0:
    torch.save(state, "weights-final.pt")
wait_for_all()
state = torch.load("weights-final.pt", map_location="cpu", weights_only=True)
""",
    "gradients that are limited too early, or too late": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-- G7
    loss.backward()
    optimizer.step()
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-- G7
""",
    "limited at the end of a window, or before the next backward": """\
model = DDP(build(), device_ids=[local_rank])
for i, (inputs, targets) in enumerate(loader):
    with nullcontext() if (i + 1) % 4 == 0 else model.no_sync():
        (F.cross_entropy(model(inputs), targets) / 4).backward()
    if (i + 1) % 4 == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
for inputs, targets in loader:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
""",
    "gradients that DDP has divided": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    for p in model.parameters():
        p.grad.data.div_(world_size)  # <-- G2
    for p in model.parameters():
        p.grad /= dist.get_world_size()  # <-- G2
        p.grad /= 2
    optimizer.step()
""",
    "weights that rank 0 changes alone, and its copy of them": """\
model = DDP(build(), device_ids=[local_rank])
averaged = copy.deepcopy(model.module)
if rank == 0:
    for p in model.parameters():
        p.data.mul_(0.9)  # <-- G1
    for own, p in zip(averaged.parameters(), model.parameters()):
        own.data.mul_(0.9).add_(p.data, alpha=0.1)
""",
    "a rate of each rank": """\
class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.model = DDP(build(), device_ids=[local_rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1 * (1 + self.rank))  # <-- G8
        self.other = torch.optim.SGD(self.model.parameters(), 0.1 * lora.rank)
""",
    "samplers of all samples, under other names": """\
sampler = torch.utils.data.RandomSampler(samples)
batches = torch.utils.data.BatchSampler(sampler, 8, drop_last=True)
loader = DataLoader(samples, sampler=sampler)  # <-- S1
other = DataLoader(samples, batch_sampler=batches)  # <-- S1
dealt = DistributedSampler(samples)
own = DataLoader(samples, batch_sampler=torch.utils.data.BatchSampler(dealt, 8, True))
for epoch in range(3):
    dealt.set_epoch(epoch)
""",
    "an order by weights, drawn by all ranks alike": """\
torch.manual_seed(0)
model = DDP(build(), device_ids=[local_rank])
common = torch.utils.data.WeightedRandomSampler(weights, 800)  # <-- S1
seeded = torch.Generator().manual_seed(seed + rank)
own = torch.utils.data.WeightedRandomSampler(weights, 800, generator=seeded)
""",
    "a loss that is divided for what is shown, or before backward": """\
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    shown = loss.detach().clone()
    dist.all_reduce(shown)
    shown /= world_size
    optimizer.step()
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss /= dist.get_world_size()  # <-- G2
    loss.backward()
    optimizer.step()
""",
    "a loss that is divided for a hook, which adds gradients up": """\
model = DDP(build(), device_ids=[local_rank])
model.register_comm_hook(None, add_up)
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss = loss / world_size
    loss.backward()
    optimizer.step()
""",
    "settings of an optimizer by the rank, and gradients that rank 0 alone limits": """\
model = DDP(build(), device_ids=[local_rank])
decay = {"weight_decay": 0.1}
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 * world_size, **decay)
other = torch.optim.AdamW(model.parameters(), weight_decay=0.1 if rank == 0 else 0.0)  # <-- G8
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    if rank == 0:
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-- G1
    optimizer.step()
""",
    "rank 0 ends before the training, after it, or with a failure": """\
import sys

if rank == 0 and os.path.exists("done"):
    sys.exit()  # <-- K8
if rank == 0 and not os.path.exists("data"):
    sys.exit(2)
if os.path.exists("stop"):
    sys.exit()
model = DDP(build(), device_ids=[local_rank])
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
if rank == 0:
    sys.exit()
""",
    "norms under both kinds of FSDP": """\
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

former = FullyShardedDataParallel(build().to(device))
torch.nn.utils.clip_grad_norm_(former.parameters(), 1.0)  # <-- F3
former.clip_grad_norm_(1.0)
torch.manual_seed(0)
model = build().to(device)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
    "names of a file, before the wrap and after": """\
class Trainer:
    def __init__(self):
        self.model = build()
        self.read()
        self.model = DDP(self.model, device_ids=[local_rank])

    def read(self):
        self.model.load_state_dict(torch.load("model.pt", map_location="cpu")["model"])


model = build()
model.load_state_dict(torch.load("first.pt", map_location="cpu"))
model = DDP(model, device_ids=[local_rank])
model.load_state_dict(torch.load("second.pt", map_location="cpu"))  # <-- K2
model.module.load_state_dict(torch.load("third.pt", map_location="cpu"))
if rank == 0:
    torch.save(model.module.state_dict(), "exported.pt")
""",
    "weights alone where a run goes on from, and for others": """\
if os.path.exists("model.pt"):
    model.load_state_dict(torch.load("model.pt", map_location="cpu"))
for inputs, targets in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
if rank == 0:
    torch.save(model.state_dict(), "model.pt")  # <-- K3
    torch.save(model.state_dict(), "exported.pt")
""",
    "waits of each step, of a log point, and of a measurement": """\
def measure(model):
    begin = time.perf_counter()
    for inputs in loader:
        model(inputs).sum().backward()
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def train(model):
    for number, inputs in enumerate(loader):
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        torch.cuda.empty_cache()  # <-- O4
        if number % 50 == 0:
            torch.cuda.synchronize()
""",
    "seeds of workers that all ranks have": """\
def own(worker):
    numpy.random.seed(torch.initial_seed() % 2**32)


def common(worker):
    numpy.random.seed(42 + worker)  # <-- S6


model = DDP(build(), device_ids=[local_rank])
dealt = DistributedSampler(samples, shuffle=False)
DataLoader(samples, sampler=dealt, worker_init_fn=own)
DataLoader(samples, sampler=dealt, worker_init_fn=common)
DataLoader(samples, sampler=dealt, worker_init_fn=lambda w: numpy.random.seed(w + 9 * rank))
""",
}
MECHANISMS = {
    **DEVICE,
    **NAMES,
    **SAMPLES,
    **FILES,
    **SHARES,
    **LOCAL_RANKS,
    **AVERAGES,
    **ALONE,
    **OUTPUT,
    **STARTED,
    **SCHEDULES,
    **FORMER_NAMES,
    **SHARDED,
    **BY_HAND,
    **STEPS,
}


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
