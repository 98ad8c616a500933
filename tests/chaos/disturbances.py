"""What can happen to a run. Each function starts one, disturbs it, and sees it end.

It returns whether the run was hit: one that had ended before proves nothing.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.lab import RANKS, Lab, is_root

Disturbance = Callable[[Lab, Path, random.Random], bool]
ENDED = [0] * RANKS
END = 120  # seconds; a busy machine


def wait_a_while(lab: Lab, chance: random.Random) -> None:
    """Any moment of a run, of its start as of its end: the moment is the point, not a condition."""
    time.sleep(chance.uniform(0.1, 1.0) * lab.seconds)


def kill_rank(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGKILL to one rank; the launcher ends the others."""
    world = lab.start(folder)
    wait_a_while(lab, chance)
    world.processes[chance.randrange(RANKS)].kill()
    return world.wait(END) != ENDED


def kill_all(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGKILL to all ranks at once, as when a node dies."""
    world = lab.start(folder)
    wait_a_while(lab, chance)
    for process in world.processes:
        process.kill()
    return world.wait(END) != ENDED


def kill_while_saving(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGKILL to a rank that writes, between two operations on the files of a checkpoint."""
    rank = chance.randrange(lab.writers)
    moment = chance.randrange(1, 20 if rank else 80)  # rank 0 does more of them
    world = lab.start(folder, KILL_RANK=str(rank), KILL_AT=str(moment))
    return world.wait(END) != ENDED


def kill_worker(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGKILL to a DataLoader worker."""
    world = lab.start(folder, "data.workers=1")
    wait_a_while(lab, chance)
    rank = world.processes[chance.randrange(RANKS)].pid
    try:
        children = Path(f"/proc/{rank}/task/{rank}/children").read_text().split()
    except OSError:  # it has ended already
        children = []
    for child in children[:1]:
        os.kill(int(child), signal.SIGKILL)
    return world.wait(END) != ENDED


def terminate(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGTERM to one rank: all save and ask to be run again."""
    world = lab.start(folder)
    wait_a_while(lab, chance)
    world.processes[chance.randrange(RANKS)].terminate()
    codes = world.wait(END)
    # Before it listens to signals a rank dies of them, and the others may notice.
    if 75 not in codes and codes != ENDED:
        assert -signal.SIGTERM in codes, codes
    return codes != ENDED


def stop_for_a_moment(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGSTOP to one rank, and SIGCONT before the timeout: nothing happens."""
    world = lab.start(folder)
    wait_a_while(lab, chance)
    process = world.processes[chance.randrange(RANKS)].pid or 0
    hit = True
    try:
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.3)  # the disturbance itself: well below the timeout
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        hit = False
    assert world.wait(END) == ENDED
    return hit


def stop_for_ever(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGSTOP to one rank: the others run into the timeout."""
    world = lab.start(folder, lab.timeout(5))
    wait_a_while(lab, chance)
    process = world.processes[chance.randrange(RANKS)]
    if process.exitcode is None:
        os.kill(process.pid or 0, signal.SIGSTOP)
    return world.wait(END) != ENDED


def newest_file(lab: Lab, folder: Path, chance: random.Random) -> Path | None:
    """The newest checkpoint, or a file of that folder; None where no older one is there."""
    if len(paths := lab.checkpoints(folder)) < 2:
        return None  # nothing to fall back on
    newest = paths[-1]
    return chance.choice(sorted(newest.iterdir())) if newest.is_dir() else newest


def tear(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """All ranks die, and the newest file has lost its end."""
    kill_all(lab, folder, chance)
    if path := newest_file(lab, folder, chance):
        os.truncate(path, chance.randrange(path.stat().st_size))
    return bool(path)


def flip(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """All ranks die, and one bit of the newest file has changed."""
    kill_all(lab, folder, chance)
    if path := newest_file(lab, folder, chance):
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    return bool(path)


def jump_in_time(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """All ranks die, and the times of the files are those of a clock that was set anew."""
    kill_all(lab, folder, chance)
    for path in folder.rglob("*"):
        os.utime(path, (0, chance.randrange(2**32)))
    return bool(lab.checkpoints(folder))


@contextmanager
def file_system(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own for a try's folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        kept = folder.with_suffix(".kept")
        subprocess.run(["cp", "-a", folder, kept], check=True)
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()
        kept.rename(folder)


def fill_disk(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """No space is left in the middle of a save; for the resume there is."""
    with file_system(folder, f"size={chance.randrange(60, 300)}k"):
        codes = lab.start(folder).wait(END)
        assert 1 in codes, codes  # a failure: the next start may find space
        assert "No space left" in (lab.project / "output.txt").read_text()
    return True


def forbid_writing(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """The folder becomes read-only at some moment."""
    with file_system(folder, "size=50m"):
        world = lab.start(folder)
        wait_a_while(lab, chance)
        command = ["mount", "-o", "remount,ro", folder]
        while subprocess.run(command, capture_output=True, check=False).returncode:
            time.sleep(0.001)  # busy: a file is being written
        hit = world.wait(END) != ENDED
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    return hit


def kill_launcher(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """SIGKILL to torchrun's process group, as a scheduler does."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [
        *torchrun,
        f"--nproc-per-node={RANKS}",
        "train.py",
        *lab.settings,
        f"run.folder={folder}",
    ]
    launcher = subprocess.Popen(
        command,
        cwd=lab.project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + END
    while not lab.checkpoints(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(chance.uniform(0, 0.5) * lab.seconds)
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
    # torchrun gives each rank a session of its own, which a scheduler's cgroup ends as well.
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"run.folder={folder}".encode() in words:
            os.kill(int(process.name), signal.SIGKILL)
    return True


@contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """The names of two network namespaces with a cable between them."""
    one, other = (f"chaos{os.getpid()}{letter}" for letter in "ab")
    for name in (one, other):
        subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        cable = ["type", "veth", "peer", "name", "cable", "netns", other]
        subprocess.run(["ip", "-n", one, "link", "add", "cable", *cable], check=True)
        for name, address in ((one, "10.214.0.1/24"), (other, "10.214.0.2/24")):
            ip = ["ip", "-n", name]
            subprocess.run([*ip, "address", "add", address, "dev", "cable"], check=True)
            for device in ("lo", "cable"):
                subprocess.run([*ip, "link", "set", device, "up"], check=True)
        yield one, other
    finally:
        for name in (one, other):
            subprocess.run(["ip", "netns", "delete", name], check=True)


def cut_network(lab: Lab, folder: Path, chance: random.Random) -> bool:
    """The cable between two hosts is cut: all ranks run into the timeout, and end."""
    command = [sys.executable, "train.py", *lab.settings, f"run.folder={folder}"]
    world = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "10.214.0.1", "MASTER_PORT": "29400"}
    ranks = []
    with two_hosts() as hosts:
        for rank in range(RANKS):
            host = ["ip", "netns", "exec", hosts[min(rank, 1)]]
            own = {"RANK": str(rank), "LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "cable"}
            ranks.append(
                subprocess.Popen(
                    [*host, *command, lab.timeout(10)],
                    cwd=lab.project,
                    env={**os.environ, **world, **own},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        deadline = time.monotonic() + END
        while not lab.checkpoints(folder) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        subprocess.run(["ip", "-n", hosts[0], "link", "set", "cable", "down"], check=True)
        try:
            codes = [rank.wait(END) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    return codes != ENDED


KINDS: dict[str, Disturbance] = {
    "SIGKILL to a rank": kill_rank,
    "SIGKILL to all ranks": kill_all,
    "SIGKILL inside a save": kill_while_saving,
    "SIGKILL to a data worker": kill_worker,
    "SIGKILL to torchrun": kill_launcher,
    "SIGTERM to a rank": terminate,
    "SIGSTOP, then SIGCONT": stop_for_a_moment,
    "SIGSTOP until the timeout": stop_for_ever,
    "newest file cut": tear,
    "one bit of it flipped": flip,
    "clock set anew": jump_in_time,
}
if is_root():
    KINDS |= {"disk full": fill_disk, "folder becomes read-only": forbid_writing}
    KINDS |= {"network between two hosts cut": cut_network}
