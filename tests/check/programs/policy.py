"""A policy that learns from what it does itself, on processes that the program starts."""

FILES = {
    "policy.py": """\
import torch
from torch import Tensor, nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, observed: int, actions: int, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observed, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(observation)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)

    @torch.no_grad()
    def act(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, value = self(observation)
        choice = Categorical(logits=logits)
        action = choice.sample()
        return action, choice.log_prob(action), value
""",
    "ppo.py": '''\
"""python ppo.py --processes 4"""

import argparse
import csv
import os
import socket
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributions import Categorical
from torch.nn.parallel import DistributedDataParallel as DDP

from policy import ActorCritic
from rollout import Pole, Rollout, collect


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatch", type=int, default=256)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--target-kl", type=float, default=0.02)
    parser.add_argument("--lr", type=float, default=2.5e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/ppo"))
    return parser.parse_args()


def mean_of_all(value: torch.Tensor) -> torch.Tensor:
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


def normalise(advantages: torch.Tensor) -> torch.Tensor:
    """Mean zero and deviation one over the advantages of all ranks."""
    moments = torch.stack((advantages.sum(), advantages.square().sum()))
    moments = torch.cat(
        (moments, torch.tensor([float(len(advantages))], device=moments.device))
    )
    dist.all_reduce(moments)
    mean = moments[0] / moments[2]
    deviation = (moments[1] / moments[2] - mean.square()).clamp_min(0).sqrt()
    return (advantages - mean) / (deviation + 1e-8)


def losses(policy, rollout: Rollout, rows: torch.Tensor, clip: float):
    logits, value = policy(rollout.observations[rows])
    choice = Categorical(logits=logits)
    ratio = (choice.log_prob(rollout.actions[rows]) - rollout.log_probs[rows]).exp()
    gain = rollout.advantages[rows]
    surrogate = torch.min(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()
    critic = (value - rollout.returns[rows]).square().mean()
    kl = ((ratio - 1) - ratio.log()).mean()
    return -surrogate + 0.5 * critic - 0.01 * choice.entropy().mean(), kl


def learn(policy, optimizer, rollout: Rollout, args, generator) -> torch.Tensor:
    total = torch.zeros(2)
    for _ in range(args.epochs):
        order = torch.randperm(len(rollout), generator=generator)
        drifted = torch.zeros(())
        for rows in order.split(args.minibatch):
            loss, kl = losses(policy, rollout, rows, args.clip)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
            total += torch.stack((loss.detach(), torch.ones(())))
            drifted = torch.maximum(drifted, kl.detach())
        if mean_of_all(drifted) > args.target_kl:
            break
    return total


def save(path: Path, policy, optimizer, update: int) -> None:
    partial = path.with_name(path.name + ".partial")
    torch.save(
        {
            "policy": policy.module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "update": update,
        },
        partial,
    )
    partial.replace(path)


def work(rank: int, args, port: int) -> None:
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group(
        "gloo", rank=rank, world_size=args.processes, timeout=timedelta(minutes=5)
    )
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    policy = DDP(ActorCritic(Pole.observed, Pole.actions))
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5)
    path = args.out / "last.pt"
    first = 0
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=True)
        policy.module.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["update"]
    dist.barrier()
    seed = args.seed + 1000 * rank + 7919 * first
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    env = Pole(args.envs, seed)
    table = open(args.out / "log.csv", "a", newline="") if rank == 0 else None
    for update in range(first, args.updates):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * (1 - update / args.updates)
        rollout = collect(env, policy.module, args.steps, "cpu")
        rollout.advantages = normalise(rollout.advantages)
        total = learn(policy, optimizer, rollout, args, generator)
        dist.all_reduce(total)
        if table:
            csv.writer(table).writerow((update, (total[0] / total[1]).item()))
            table.flush()
        if rank == 0 and (update + 1) % 50 == 0:
            save(path, policy, optimizer, update + 1)
    if table:
        table.close()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    mp.spawn(work, (args, free_port()), args.processes)
''',
    "rollout.py": '''\
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


class Pole:
    """Carts with a pole, as many as there are, each with its own start."""

    observed, actions = 4, 2

    def __init__(self, count: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, (count, 4))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        force = np.where(action == 1, 10.0, -10.0)
        x, v, angle, spin = self.state.T
        turn = (9.8 * np.sin(angle) - np.cos(angle) * force / 1.1) / 0.65
        self.state = np.stack(
            (x + 0.02 * v, v + 0.02 * force, angle + 0.02 * spin, spin + 0.02 * turn), 1
        )
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.2)
        self.state[done] = self.random.uniform(-0.05, 0.05, (int(done.sum()), 4))
        return self.state, np.ones(len(done)), done


@dataclass
class Rollout:
    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor

    def __len__(self) -> int:
        return len(self.actions)


def collect(
    env: Pole, policy, steps: int, device, gamma: float = 0.99, lam: float = 0.95
) -> Rollout:
    rows = []
    observation = torch.as_tensor(env.state, dtype=torch.float32, device=device)
    for _ in range(steps):
        action, log_prob, value = policy.act(observation)
        state, reward, done = env.step(action.cpu().numpy())
        rows.append((observation, action, log_prob, value, reward, done))
        observation = torch.as_tensor(state, dtype=torch.float32, device=device)
    last = policy.act(observation)[2]
    advantage, advantages = torch.zeros_like(last), []
    for _, _, _, value, reward, done in reversed(rows):
        alive = torch.as_tensor(~done, device=device, dtype=torch.float32)
        earned = torch.as_tensor(reward, device=device, dtype=torch.float32)
        advantage = earned + gamma * last * alive - value + gamma * lam * alive * advantage
        advantages.append(advantage)
        last = value
    advantages = torch.stack(advantages[::-1]).flatten()
    values = torch.stack([row[3] for row in rows]).flatten()
    return Rollout(
        torch.stack([row[0] for row in rows]).flatten(0, 1),
        torch.stack([row[1] for row in rows]).flatten(),
        torch.stack([row[2] for row in rows]).flatten(),
        advantages,
        advantages + values,
    )
''',
}

RIGHT = {
    "rank seed before net without DDP sync": (
        """\
    torch.manual_seed(args.seed)
""",
        """\
    torch.manual_seed(args.seed + rank)
""",
    ),
    "normalise own": (
        """\
    dist.all_reduce(moments)
""",
        "",
    ),
    "no join": (
        "mp.spawn(work, (args, free_port()), args.processes)",
        "mp.spawn(work, (args, free_port()), args.processes, join=True)",
    ),
}

# What is replaced in turn, and the row that is reported.
MISTAKES = {
    "own drift ends the epochs": (
        "        if mean_of_all(drifted) > args.target_kl:",
        "        if drifted > args.target_kl:",
        "G10",
    ),
    "own drift ends the update": (
        """\
            drifted = torch.maximum(drifted, kl.detach())
""",
        """\
            drifted = torch.maximum(drifted, kl.detach())
            if kl > 4 * args.target_kl:
                return total
""",
        "G10",
    ),
    "own drift skips a step": (
        """\
            optimizer.zero_grad(set_to_none=True)
            loss.backward()""",
        """\
            if kl > args.target_kl:
                continue
            optimizer.zero_grad(set_to_none=True)
            loss.backward()""",
        "G10",
    ),
    "a mean that nothing divides": (
        "    return value / dist.get_world_size()",
        "    return value",
        "O2",
    ),
    "reduced where the table is": (
        """\
        dist.all_reduce(total)
        if table:
""",
        """\
        if table:
            dist.all_reduce(total)
""",
        "K8",
    ),
    "no moments": (
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
    "no place": (
        """\
            "update": update,
""",
        "",
        """\
        first = state["update"]
""",
        "",
        "K3",
    ),
    "begins anew": (
        """\
        first = state["update"]
""",
        "",
        "K3",
    ),
    "the update that is over": (
        "save(path, policy, optimizer, update + 1)",
        "save(path, policy, optimizer, update)",
        "K10",
    ),
    "each rank writes the table": (
        'open(args.out / "log.csv", "a", newline="") if rank == 0 else None',
        'open(args.out / "log.csv", "a", newline="")',
        "O1",
    ),
    "a port that is taken": (
        "mp.spawn(work, (args, free_port()), args.processes)",
        "mp.spawn(work, (args, 29500), args.processes)",
        "D11",
    ),
    "a process is missing": (
        "mp.spawn(work, (args, free_port()), args.processes)",
        "mp.spawn(work, (args, free_port()), args.processes - 1)",
        "D10",
    ),
    "one process alone": (
        "mp.spawn(work, (args, free_port()), args.processes)",
        "mp.spawn(work, (args, free_port()))",
        "D10",
    ),
    "losses keep their graphs": (
        "total += torch.stack((loss.detach(), torch.ones(())))",
        "total = total + torch.stack((loss, torch.ones(())))",
        "O14",
    ),
    "a rate of its own": (
        "args.lr * (1 - update / args.updates)",
        "args.lr * (1 - update / args.updates) * (1 + rank)",
        "G8",
    ),
    "more epochs on some ranks": (
        "    for _ in range(args.epochs):",
        "    for _ in range(args.epochs + dist.get_rank() % 2):",
        "S7",
    ),
    "another network's optimizer": (
        "    optimizer = torch.optim.Adam(policy.parameters()",
        "    optimizer = torch.optim.Adam(ActorCritic(Pole.observed, Pole.actions).parameters()",
        "G1",
    ),
}
