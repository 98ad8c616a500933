"""What the pool gives a program, what it puts back, and what it refuses to overlook.

The programs here are a few lines each, with a `main(argv)` as train.py has it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from product.forkserver import Run
from product.pool import Pool

HEADER = """
import os, random, signal, sys, threading, time
from datetime import timedelta
import torch
import torch.distributed as dist

def main(argv):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
"""
SUM = [
    "total = torch.tensor([rank + 1.0])",
    "dist.all_reduce(total)",
    "print(f'sum {total.tolist()}\\n', end='', flush=True)",
]
DRAWN = "repr((torch.rand(1).item(), random.random()))"
END = """
    dist.destroy_process_group()
"""
RESTORED = {
    "the environment": ("os.environ['MINE'] = '1'", "assert 'MINE' not in os.environ"),
    "the current folder": ("os.chdir('/')", "assert os.path.exists('train.py')"),
    "the path": ("sys.path.insert(0, '/mine')", "assert '/mine' not in sys.path"),
    "a signal": (
        "signal.signal(signal.SIGUSR1, lambda *_: None)",
        "assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL",
    ),
    "the default type": (
        "torch.set_default_dtype(torch.float64)",
        "assert torch.get_default_dtype() == torch.float32",
    ),
    "the default device": (
        "torch.set_default_device('meta')",
        "assert torch.ones(1).device.type == 'cpu'",
    ),
    "determinism": (
        "torch.use_deterministic_algorithms(True)",
        "assert not torch.are_deterministic_algorithms_enabled()",
    ),
    "the precision of products": (
        "torch.set_float32_matmul_precision('medium')",
        "assert torch.get_float32_matmul_precision() == 'highest'",
    ),
    "gradients": ("torch.set_grad_enabled(False)", "assert torch.is_grad_enabled()"),
    "what is random": (
        f"open(str(rank), 'w').write({DRAWN})",
        f"assert open(str(rank)).read() == {DRAWN}",
    ),
    "a module": (
        "open('helper.py', 'w').write('old = 1') if rank == 0 else time.sleep(0.5); import helper",
        "assert 'helper' not in sys.modules",
    ),
}
LEFT = {
    "a thread": ("threading.Thread(target=time.sleep, args=(60,)).start()", "thread Thread-"),
    "an open file": ("sys.mine = open('train.py')", "open file"),
    "another function": ("torch.rand = torch.ones", "another torch.rand"),
    "a group": ("sys.mine = dist.new_group([0, 1])", "a group of its own"),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    ranks = Pool(seconds=60)
    yield ranks
    ranks.close()


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Callable[..., Run]:
    """Run a program of these lines; a new one may have the same name and folder."""

    def run_lines(*lines: str, end: str = END) -> Run:
        text = HEADER + "".join(f"    {line}\n" for line in lines) + end
        (tmp_path / "train.py").write_text(text)
        return pool.train(tmp_path, 2, [])

    return run_lines


def test_ranks_stay_and_reduce(run: Callable[..., Run], pool: Pool) -> None:
    first = run(*SUM)
    processes = [process.pid for process in pool.processes]
    second = run(*SUM, "print('of the second\\n', end='', flush=True)")
    assert (first.codes, second.codes) == ([0, 0], [0, 0]), first.output + second.output
    assert first.output.count("sum [3.0]") == 2
    assert second.output.count("of the second") == 2, "the text of each program counts"
    assert [process.pid for process in pool.processes] == processes


@pytest.mark.parametrize("name", RESTORED)
def test_what_a_program_changes_is_put_back(name: str, run: Callable[..., Run]) -> None:
    change, check = RESTORED[name]
    changed = run(change)
    assert changed.codes == [0, 0], changed.output
    after = run(check)
    assert after.codes == [0, 0], after.output


@pytest.mark.parametrize("name", LEFT)
def test_what_a_program_leaves_is_a_failure(name: str, run: Callable[..., Run]) -> None:
    leave, sentence = LEFT[name]
    found = run(leave)
    assert found.codes == [1, 1]
    assert "the program left behind: " in found.output
    assert sentence in found.output
    assert run(*SUM).codes == [0, 0], "in new ranks"


def test_group_that_stays_set_up_is_a_failure(run: Callable[..., Run]) -> None:
    found = run(end="")
    assert found.codes == [1, 1]
    assert "the process group, still set up" in found.output


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("dist.init_process_group('gloo', timeout=timedelta(seconds=60))", "a second time"),
        ("dist.destroy_process_group(); dist.init_process_group('nccl')", "cannot be had"),
        (
            "dist.destroy_process_group(); os.environ['RANK'] = '7'; dist.init_process_group()",
            "the variables were",
        ),
        ("dist.destroy_process_group(); dist.destroy_process_group()", "no process group"),
    ],
)
def test_wrong_group_is_refused(lines: str, sentence: str, run: Callable[..., Run]) -> None:
    found = run(lines)
    assert found.codes == [1, 1]
    assert sentence in found.output


def test_one_rank_that_raises_ends_both(run: Callable[..., Run]) -> None:
    begin = time.monotonic()
    found = run("assert rank == 0, 'rank 1 gives up'", *SUM)
    assert found.codes[1] == 1
    assert found.codes[0] != 0
    assert "rank 1 gives up" in found.output
    assert time.monotonic() - begin < 30, "the other one waits for nothing"
    assert run(*SUM).codes == [0, 0]


def test_rank_that_ends_is_noticed(run: Callable[..., Run]) -> None:
    found = run("os._exit(7) if rank else None", *SUM)
    assert "it ended, with exit code 7" in found.output
    assert all(found.codes)


def test_rank_that_hangs_is_ended_and_says_where(tmp_path: Path) -> None:
    text = f"{HEADER}    time.sleep(600 * rank)\n    {SUM[0]}\n    {SUM[1]}\n"
    (tmp_path / "train.py").write_text(text)
    pool = Pool(seconds=15)
    try:
        found = pool.train(tmp_path, 2, [])
    finally:
        pool.close()
    assert all(found.codes)
    line = text[: text.index("time.sleep")].count("\n") + 1
    assert f'File "train.py", line {line} in main' in found.output


def test_collective_that_only_one_rank_did_is_noticed(run: Callable[..., Run]) -> None:
    once = "sys.mine = dist.all_reduce(torch.ones(2, dtype=torch.int64), async_op=True)"
    found = run(f"if rank: {once}")
    assert any(found.codes), "or the next program's ranks would take it for theirs"
