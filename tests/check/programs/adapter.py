"""A language model that is fine-tuned by an adapter, and mistakes put into it.

Its loop goes over windows of micro-batches, whose losses are divided by the targets of all.
"""

FILES = {
    "finetune.py": """\
#!/usr/bin/env python
# torchrun --nproc_per_node=8 finetune.py --data a.jsonl b.jsonl --out runs/lora
import argparse
import json
import math
import os
import random
import shutil
from bisect import bisect_right
from contextlib import nullcontext
from datetime import timedelta
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, get_cosine_schedule_with_warmup

IGNORE = -100


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="gpt2")
    p.add_argument("--data", nargs="+", required=True)
    p.add_argument("--valid")
    p.add_argument("--out", type=Path, default=Path("runs/lora"))
    p.add_argument("--length", type=int, default=2048)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--accum", type=int, default=8)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--warmup", type=float, default=0.03)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", type=int, default=2)
    p.add_argument("--resume", action="store_true")
    return p.parse_args()


class JsonLines(Dataset):

    def __init__(self, paths):
        self.paths = sorted(paths)
        self.offsets = [self.index(path) for path in self.paths]
        self.ends = list(accumulate(map(len, self.offsets)))

    @staticmethod
    def index(path):
        with open(path, "rb") as file:
            found, place = [], 0
            for line in file:
                found.append(place)
                place += len(line)
        return found

    def __len__(self):
        return self.ends[-1]

    def __getitem__(self, number):
        which = bisect_right(self.ends, number)
        first = self.ends[which - 1] if which else 0
        with open(self.paths[which], "rb") as file:
            file.seek(self.offsets[which][number - first])
            return json.loads(file.readline())


class Packed:

    def __init__(self, tokenizer, length):
        self.tokenizer, self.length = tokenizer, length

    def __call__(self, samples):
        rows, row, marks = [], [], []
        for sample in samples:
            prompt = self.tokenizer(sample["prompt"])["input_ids"]
            answer = self.tokenizer(sample["answer"])["input_ids"] + [self.tokenizer.eos_token_id]
            row += prompt + answer
            marks += [IGNORE] * len(prompt) + answer
        size = self.length * max(1, math.ceil(len(row) / self.length))
        row += [self.tokenizer.eos_token_id] * (size - len(row))
        marks += [IGNORE] * (size - len(marks))
        ids = torch.tensor(row).view(-1, self.length)
        return {"input_ids": ids, "labels": torch.tensor(marks).view(-1, self.length)}


def setup():
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", timeout=timedelta(minutes=30))
    return dist.get_rank(), local_rank, dist.get_world_size()


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def build(args, device):
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.bfloat16)
    model.config.use_cache = False
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
    for p in model.parameters():
        if p.requires_grad:
            p.data = p.data.float()
    return model.to(device)


def token_loss(logits, labels):
    shifted = logits[:, :-1].float().flatten(0, 1)
    targets = labels[:, 1:].flatten()
    return F.cross_entropy(shifted, targets, ignore_index=IGNORE, reduction="sum")


def windows(loader, size):
    found = []
    for batch in loader:
        found.append(batch)
        if len(found) == size:
            yield found
            found = []
    if found:
        yield found


def evaluate(model, loader, device):
    model.eval()
    totals = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            logits = model(input_ids=batch["input_ids"]).logits
            totals[0] += token_loss(logits, batch["labels"])
            totals[1] += (batch["labels"][:, 1:] != IGNORE).sum()
    dist.all_reduce(totals)
    model.train()
    return (totals[0] / totals[1]).item()


def save(args, model, tokenizer, optimizer, schedule, epoch, step, best, rngs):
    target = args.out / f"epoch-{epoch:03d}"
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    torch.save(
        {
            "adapter": get_peft_model_state_dict(model),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "epoch": epoch + 1,
            "step": step,
            "best": best,
            "rngs": rngs,
        },
        part / "state.pt",
    )
    tokenizer.save_pretrained(part)
    os.replace(part, target)
    link = args.out / "latest.new"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    os.replace(link, args.out / "latest")
    for old in sorted(args.out.glob("epoch-???"))[: -args.keep]:
        shutil.rmtree(old)


def main():
    args = parse()
    rank, local_rank, world = setup()
    device = torch.device("cuda", local_rank)
    if local_rank == 0:
        AutoTokenizer.from_pretrained(args.model)
        AutoModelForCausalLM.from_pretrained(args.model)
    dist.barrier()
    seed_all(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    net = build(args, device)
    seed_all(args.seed + rank)

    train = JsonLines(args.data)
    sampler = DistributedSampler(train, shuffle=True, seed=args.seed, drop_last=True)
    collate = Packed(tokenizer, args.length)
    loader = DataLoader(
        train,
        batch_size=args.batch,
        sampler=sampler,
        collate_fn=collate,
        num_workers=4,
        drop_last=True,
        pin_memory=True,
    )
    held = JsonLines([args.valid])
    valid_loader = DataLoader(
        held, batch_size=args.batch, sampler=range(rank, len(held), world), collate_fn=collate
    )

    decay = [p for p in net.parameters() if p.requires_grad and p.ndim > 1]
    other = [p for p in net.parameters() if p.requires_grad and p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}],
        lr=args.lr,
    )
    per_epoch = math.ceil(len(loader) / args.accum)
    total = per_epoch * args.epochs
    schedule = get_cosine_schedule_with_warmup(optimizer, int(total * args.warmup), total)

    first, step, best = 0, 0, float("inf")
    latest = args.out / "latest" / "state.pt"
    if args.resume and latest.exists():
        state = torch.load(latest, map_location="cpu", weights_only=True)
        set_peft_model_state_dict(net, state["adapter"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        first, step, best = state["epoch"], state["step"], state["best"]
        torch.set_rng_state(state["rngs"][rank])
    model = DDP(net, device_ids=[local_rank])

    model.train()
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        bar = tqdm(total=per_epoch, disable=rank != 0)
        for micro in windows(loader, args.accum):
            count = torch.stack([(b["labels"][:, 1:] != IGNORE).sum() for b in micro]).sum()
            count = count.to(device)
            dist.all_reduce(count)
            summed = torch.zeros((), device=device)
            for number, batch in enumerate(micro):
                last = number == len(micro) - 1
                ids = batch["input_ids"].to(device, non_blocking=True)
                labels = batch["labels"].to(device, non_blocking=True)
                with nullcontext() if last else model.no_sync():
                    with torch.autocast("cuda", dtype=torch.bfloat16):
                        logits = model(input_ids=ids).logits
                    loss = token_loss(logits, labels) * world / count
                    loss.backward()
                summed += loss.detach()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            bar.update()
            if step % 10 == 0:
                dist.all_reduce(summed, op=dist.ReduceOp.AVG)
                if rank == 0:
                    bar.set_postfix(loss=f"{summed.item():.3f}", lr=schedule.get_last_lr()[0])
        value = evaluate(model, valid_loader, device)
        best = min(best, value)
        rngs = [None] * world
        dist.all_gather_object(rngs, torch.get_rng_state())
        if rank == 0:
            print(f"epoch {epoch}: {value:.4f}, best {best:.4f}", flush=True)
            save(args, net, tokenizer, optimizer, schedule, epoch, step, best, rngs)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
""",
    "run.sh": """\
#!/usr/bin/env bash
set -euo pipefail
export OMP_NUM_THREADS=8
export TOKENIZERS_PARALLELISM=false
exec torchrun --standalone --nproc_per_node=8 finetune.py \\
    --data data/part-00.jsonl data/part-01.jsonl --valid data/held.jsonl --out runs/lora --resume
""",
}
# What is put in: in turn the text that goes and the text that comes, and the row.
MISTAKES = {
    "share with the world left out": ("* world / count", "/ count", "G2"),
    "count of own": (
        """\
            dist.all_reduce(count)
""",
        "",
        "G6",
    ),
    "sum loss": ("* world / count", "", "G2"),
    "forward of net": (
        """\
logits = model(input_ids=ids).logits
                    loss""",
        """\
logits = net(input_ids=ids).logits
                    loss""",
        "G1",
    ),
    "forward of module": (
        """\
logits = model(input_ids=ids).logits
                    loss""",
        """\
logits = model.module(input_ids=ids).logits
                    loss""",
        "G1",
    ),
    "no no_sync": (
        """\
                with nullcontext() if last else model.no_sync():
""",
        """\
                with nullcontext():
""",
        "G3",
    ),
    "sync inverted": (
        "nullcontext() if last else model.no_sync()",
        "model.no_sync() if last else nullcontext()",
        "G1",
    ),
    "all under no_sync": ("nullcontext() if last else model.no_sync()", "model.no_sync()", "G1"),
    "off by one": ("last = number == len(micro) - 1", "last = number == len(micro)", "G1"),
    "drops the rest": (
        """\
    if found:
        yield found
""",
        "",
        "G5",
    ),
    "zero in the window": (
        "                last = number",
        """\
                optimizer.zero_grad()
                last = number""",
        "G4",
    ),
    "zero before step": (
        """\
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
""",
        """\
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.zero_grad(set_to_none=True)
            optimizer.step()
            schedule.step()
""",
        "G4",
    ),
    "never cleared": (
        """\
            optimizer.zero_grad(set_to_none=True)
""",
        "",
        "G4",
    ),
    "clip in the window": (
        """\
                    loss.backward()
                summed""",
        """\
                    loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                summed""",
        "G7",
    ),
    "clips nothing": (
        """\
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
""",
        """\
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
""",
        "G7",
    ),
    "clip exhausted generator": (
        "    model = DDP(net",
        """\
    trained = (p for p in net.parameters() if p.requires_grad)
    model = DDP(net""",
        "clip_grad_norm_(model.parameters(), 1.0)",
        "clip_grad_norm_(trained, 1.0)",
        "G7",
    ),
    "schedule by micro": (
        "per_epoch = math.ceil(len(loader) / args.accum)",
        "per_epoch = len(loader)",
        "G8",
    ),
    "schedule in window": (
        """\
                summed += loss.detach()
""",
        """\
                summed += loss.detach()
                schedule.step()
""",
        "G8",
    ),
    "schedule of the whole data": (
        "math.ceil(len(loader) / args.accum)",
        "math.ceil(len(train) / args.batch / args.accum)",
        "G8",
    ),
    "schedule times world": (
        "total = per_epoch * args.epochs",
        "total = per_epoch * args.epochs * world",
        "G8",
    ),
    "schedule over world": (
        "total = per_epoch * args.epochs",
        "total = per_epoch * args.epochs // world",
        "G8",
    ),
    "schedule per epoch": (
        """\
            schedule.step()
""",
        "",
        "        value = evaluate",
        """\
        schedule.step()
        value = evaluate""",
        "G8",
    ),
    "bad sample skipped": (
        "                ids = batch",
        """\
                if (batch["labels"] == IGNORE).all():
                    continue
                ids = batch""",
        "G10",
    ),
    "nan skipped": (
        """\
                    loss.backward()
""",
        """\
                    if not torch.isfinite(loss):
                        continue
                    loss.backward()
""",
        "G10",
    ),
    "long skipped": (
        "            count = torch.stack",
        """\
            if sum(b["input_ids"].numel() for b in micro) > 60000:
                continue
            count = torch.stack""",
        "G10",
    ),
    "oom skipped": (
        """\
                    loss.backward()
""",
        """\
                    try:
                        loss.backward()
                    except RuntimeError:
                        torch.cuda.empty_cache()
                        continue
""",
        "G10",
    ),
    "find unused": (
        "DDP(net, device_ids=[local_rank])",
        "DDP(net, device_ids=[local_rank], find_unused_parameters=True)",
        "G11",
    ),
    "reentrant": (
        """\
    model.config.use_cache = False
""",
        """\
    model.config.use_cache = False
    model.gradient_checkpointing_enable({'use_reentrant': True})
""",
        "G12",
    ),
    "frozen after wrap": (
        """\
    model.train()
    for epoch""",
        """\
    for name, p in net.named_parameters():
        p.requires_grad = 'lora' in name
    model.train()
    for epoch""",
        "G1",
    ),
    "no set_epoch": (
        """\
        sampler.set_epoch(epoch)
""",
        "",
        "S2",
    ),
    "sampler rank of node": (
        "DistributedSampler(train, shuffle",
        "DistributedSampler(train, num_replicas=world, rank=local_rank, shuffle",
        "S1",
    ),
    "sampler seed by rank": (
        "shuffle=True, seed=args.seed, drop",
        "shuffle=True, seed=args.seed + rank, drop",
        "S3",
    ),
    "split by own": (
        """\
    held = JsonLines([args.valid])
""",
        """\
    train, held = torch.utils.data.random_split(train, [0.99, 0.01])
""",
        "S3",
    ),
    "unsorted files": (
        """\
    train = JsonLines(args.data)
""",
        """\
    train = JsonLines(list(Path("data").glob("*.jsonl")))
""",
        "self.paths = sorted(paths)",
        "self.paths = paths",
        "S3",
    ),
    "one seed": (
        """\
    seed_all(args.seed + rank)

""",
        """\

""",
        "S6",
    ),
    "valid padded": (
        "sampler=range(rank, len(held), world), ",
        "sampler=DistributedSampler(held, shuffle=False), ",
        "S8",
    ),
    "valid dropped": (
        """\
collate_fn=collate
    )""",
        """\
collate_fn=collate, drop_last=True
    )""",
        "S8",
    ),
    "valid shares of node": (
        "sampler=range(rank, len(held), world)",
        "sampler=range(local_rank, len(held), world)",
        "S1",
    ),
    "valid rank 0": (
        """\
        value = evaluate(model, valid_loader, device)
        best = min(best, value)
""",
        """\
        if rank == 0:
            value = evaluate(model, valid_loader, device)
            best = min(best, value)
""",
        "O3",
    ),
    "valid unreduced": (
        """\
    dist.all_reduce(totals)
""",
        "",
        "O2",
    ),
    "valid with grad": (
        "    with torch.no_grad(), torch.autocast",
        "    with torch.autocast",
        "O8",
    ),
    "valid leaves eval": (
        """\
    dist.all_reduce(totals)
    model.train()
""",
        """\
    dist.all_reduce(totals)
""",
        "O8",
    ),
    "valid in train mode": (
        """\
    model.eval()
    totals""",
        "    totals",
        "O8",
    ),
    "saves on nodes": (
        """\
        if rank == 0:
            print(f"epoch""",
        """\
        if local_rank == 0:
            print(f"epoch""",
        "K1",
    ),
    "link by all": (
        """\
        dist.barrier()
    dist.destroy""",
        """\
        (args.out / 'last').symlink_to(f'epoch-{epoch:03d}')
        dist.barrier()
    dist.destroy""",
        "K1",
    ),
    "keeps none": ("[: -args.keep]", "[-args.keep :]", "K6"),
    "optimizer not saved": (
        """\
            "optimizer": optimizer.state_dict(),
""",
        "",
        """\
        optimizer.load_state_dict(state["optimizer"])
""",
        "",
        "K3",
    ),
    "optimizer not loaded": (
        """\
        optimizer.load_state_dict(state["optimizer"])
""",
        "",
        "K3",
    ),
    "schedule not loaded": (
        """\
        schedule.load_state_dict(state["schedule"])
""",
        "",
        "K3",
    ),
    "rng of 0": ('state["rngs"][rank]', 'state["rngs"][0]', "K4"),
    "rng not restored": (
        """\
        torch.set_rng_state(state["rngs"][rank])
""",
        "",
        "K4",
    ),
    "rng by rank 0": (
        """\
        rngs = [None] * world
        dist.all_gather_object(rngs, torch.get_rng_state())
        if rank == 0:
""",
        """\
        if rank == 0:
            rngs = [None] * world
            dist.all_gather_object(rngs, torch.get_rng_state())
""",
        "K8",
    ),
    "epoch again": ('"epoch": epoch + 1', '"epoch": epoch', "K10"),
    "resume by rank 0": (
        "if args.resume and latest.exists():",
        "if args.resume and rank == 0 and latest.exists():",
        "K7",
    ),
    "loads on gpu 0": ('map_location="cpu", weights_only', "weights_only", "K7"),
    "unsafe": ("weights_only=True", "weights_only=False", "K7"),
    "device of rank": (
        'device = torch.device("cuda", local_rank)',
        'device = torch.device("cuda", rank)',
        "D4",
    ),
    "device_map": (
        """\
torch_dtype=torch.bfloat16)
    model.config""",
        """\
torch_dtype=torch.bfloat16, device_map="auto")
    model.config""",
        "D4",
    ),
    "labels not moved": (
        'labels = batch["labels"].to(device, non_blocking=True)',
        'labels = batch["labels"]',
        "D3",
    ),
    "download on all": (
        """\
    if local_rank == 0:
        AutoTokenizer.from_pretrained(args.model)
        AutoModelForCausalLM.from_pretrained(args.model)
    dist.barrier()
""",
        """\
    urllib.request.urlretrieve(args.url, args.valid)
""",
        "D13",
    ),
    "barrier by some": (
        """\
        AutoModelForCausalLM.from_pretrained(args.model)
    dist.barrier()
""",
        """\
        AutoModelForCausalLM.from_pretrained(args.model)
        dist.barrier()
""",
        "K8",
    ),
    "bar on all": ("disable=rank != 0", "leave=False", "O1"),
    "prints on all": (
        """\
        if rank == 0:
            print(f"epoch {epoch}: {value:.4f}, best {best:.4f}", flush=True)
""",
        """\
        print(f"epoch {epoch}: {value:.4f}, best {best:.4f}", flush=True)
        if rank == 0:
""",
        "O1",
    ),
    "item each micro": ("summed += loss.detach()", "summed += loss.item()", "O4"),
    "graph kept": ("summed += loss.detach()", "summed += loss", "O14"),
    "loss summed": (
        "dist.all_reduce(summed, op=dist.ReduceOp.AVG)",
        "dist.all_reduce(summed)",
        "O2",
    ),
    "early stop of 0": (
        """\
        dist.barrier()
    dist.destroy""",
        """\
        dist.barrier()
        if rank == 0 and value > best * 1.1:
            break
    dist.destroy""",
        "K8",
    ),
    "nccl timeout": (
        """\
export OMP_NUM_THREADS=8
""",
        """\
export NCCL_TIMEOUT=3600
""",
        "D9",
    ),
    "debug left": (
        """\
export OMP_NUM_THREADS=8
""",
        """\
export TORCH_DISTRIBUTED_DEBUG=DETAIL
""",
        "L6",
    ),
    "no teardown": (
        """\
        dist.barrier()
    dist.destroy_process_group()
""",
        """\
        dist.barrier()
""",
        "D8",
    ),
    "no timeout": (", timeout=timedelta(minutes=30)", "", "D9"),
}
# What may stand there instead: in turn the text that goes, and the text that comes.
RIGHT = {
    "set_device_by_device": (
        """\
    torch.cuda.set_device(local_rank)
""",
        """\
    torch.cuda.set_device(torch.device("cuda", local_rank))
""",
    ),
    "flag on the model": (
        """\
                with nullcontext() if last else model.no_sync():
""",
        """\
                model.require_backward_grad_sync = last
                with nullcontext():
""",
    ),
    "scale outside": (
        "* world / count",
        "* (world / count)",
    ),
    "scale of two": (
        """\
                    loss = token_loss(logits, labels) * world / count
""",
        """\
                    factor = world / count
                    loss = token_loss(logits, labels) * factor
""",
    ),
    "average by hand": (
        "dist.all_reduce(summed, op=dist.ReduceOp.AVG)",
        """\
dist.all_reduce(summed)
                summed /= world""",
    ),
    "mean of float": (
        "dist.all_reduce(summed, op=dist.ReduceOp.AVG)",
        """\
summed /= world
                dist.all_reduce(summed)""",
    ),
    "non reentrant": (
        """\
    model.config.use_cache = False
""",
        """\
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
    model.enable_input_require_grads()
""",
    ),
    "batch moved as a whole": (
        """\
                ids = batch["input_ids"].to(device, non_blocking=True)
                labels = batch["labels"].to(device, non_blocking=True)
""",
        """\
                batch = {name: value.to(device) for name, value in batch.items()}
                ids, labels = batch.pop("input_ids"), batch.pop("labels")
""",
    ),
    "first rank of nodes by environment": (
        """\
    if local_rank == 0:
        AutoTok""",
        """\
    if os.environ["LOCAL_RANK"] == "0":
        AutoTok""",
    ),
    "list of states": (
        """\
        rngs = [None] * world
        dist.all_gather_object(rngs, torch.get_rng_state())
""",
        """\
        rngs = [None for _ in range(world)]
        dist.all_gather_object(rngs, torch.get_rng_state())
""",
    ),
    "gathered on rank 0": (
        """\
        rngs = [None] * world
        dist.all_gather_object(rngs, torch.get_rng_state())
""",
        """\
        rngs = [None] * world if rank == 0 else None
        dist.gather_object(torch.get_rng_state(), rngs, dst=0)
""",
    ),
    "decision sent": (
        """\
        dist.barrier()
    dist.destroy""",
        """\
        dist.barrier()
        verdict = torch.tensor(float(value > best * 1.1), device=device)
        dist.broadcast(verdict, 0)
        if verdict.item():
            break
    dist.destroy""",
    ),
    "decision of reduced": (
        """\
        dist.barrier()
    dist.destroy""",
        """\
        dist.barrier()
        if value > best * 1.1:
            break
    dist.destroy""",
    ),
    "one dataset by ConcatDataset": (
        """\
    train = JsonLines(args.data)
""",
        """\
    train = torch.utils.data.ConcatDataset([JsonLines([p]) for p in sorted(args.data)])
""",
    ),
    "split by a seed": (
        """\
    held = JsonLines([args.valid])
""",
        """\
    cut = torch.Generator().manual_seed(args.seed)
    train, held = torch.utils.data.random_split(train, [0.99, 0.01], cut)
""",
    ),
    "clip of a list": (
        "    model = DDP(net",
        """\
    trained = [p for p in net.parameters() if p.requires_grad]
    model = DDP(net""",
        "clip_grad_norm_(model.parameters(), 1.0)",
        "clip_grad_norm_(trained, 1.0)",
    ),
    "step in one call": (
        """\
            optimizer.step()
            schedule.step()
""",
        """\
            for each in (optimizer, schedule):
                each.step()
""",
    ),
    "zero grad first": (
        """\
            optimizer.zero_grad(set_to_none=True)
""",
        "",
        "            summed = torch.zeros",
        """\
            optimizer.zero_grad(set_to_none=True)
            summed = torch.zeros""",
    ),
    "teardown in finally": (
        """\
if __name__ == "__main__":
    main()
""",
        """\
if __name__ == "__main__":
    try:
        main()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
""",
        """\
        dist.barrier()
    dist.destroy_process_group()
""",
        """\
        dist.barrier()
""",
    ),
    "bar only on zero": (
        """\
        bar = tqdm(total=per_epoch, disable=rank != 0)
""",
        """\
        bar = tqdm(total=per_epoch, disable=bool(rank))
""",
    ),
}
