"""A real SLURM cluster of several nodes on this machine, in a temporary folder.

Nothing of the system's configuration is read or written. Each slurmd has its own host name and its
own /etc/hosts (private mount and UTS namespaces), so that nodes find each other by name as on a
real cluster. GPUs are character devices that SLURM counts and hands out like real ones.
"""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "unshare")

CONFIG = """\
ClusterName=lab
SlurmctldHost={controller}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
PlugStackConfig={folder}/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
GresTypes=gpu
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=9
"""


def missing_programs() -> list[str]:
    """Names of the programs that the lab needs and this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass(frozen=True)
class Lab:
    """A running cluster; its commands are the real ones."""

    folder: Path

    def command(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """Run one of SLURM's commands and return what it prints; raises when it fails."""
        done = subprocess.run(
            arguments,
            check=False,
            cwd=cwd,
            env={**os.environ, **(env or {}), "SLURM_CONF": str(self.folder / "slurm.conf")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def submit(self, script: str, *arguments: str, cwd: Path, env: Mapping[str, str]) -> str:
        """Submit a script as a user would, and return the job's number."""
        return self.command("sbatch", "--parsable", script, *arguments, cwd=cwd, env=env)

    def state(self, job: str) -> str:
        """The job's state, such as RUNNING, as squeue or else the controller's memory has it."""
        return self.command("squeue", "--noheader", "--states=all", "--jobs", job, "--format=%T")

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = 300) -> None:
        """Wait for a condition; raises with the name of what did not come."""
        wait_for(what, condition, seconds)


def wait_for(what: str, condition: Callable[[], bool], seconds: float) -> None:
    """Ask again and again until `condition` holds; raises TimeoutError otherwise."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def cluster(nodes: int = 2, cpus: int = 4, gpus: int = 2) -> Iterator[Lab]:
    """Start a cluster of `nodes` nodes named node1, node2, ... and end it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
    names = [f"node{i + 1}" for i in range(nodes)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        _write_files(folder, names, cpus, gpus)
        processes.append(_start(folder, "munged", _munged(folder)))
        wait_for("munge's socket", (folder / "munge.socket").exists, 10)
        processes.append(_start(folder, "slurmctld", ["slurmctld", "-D", "-f", _conf(folder)]))
        processes += [_start(folder, f"slurmd-{name}", _slurmd(folder, name)) for name in names]
        lab = Lab(folder)
        wait_for("the nodes' registration", lambda: _idle(lab) == nodes, 30)
        yield lab
    finally:
        _stop(folder, processes)
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: Path, names: Sequence[str], cpus: int, gpus: int) -> None:
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    (folder / "state").mkdir()
    (folder / "plugstack.conf").touch()
    (folder / "hosts").write_text("127.0.0.1 localhost " + " ".join(names) + "\n")
    for i in range(gpus):
        os.mknod(folder / f"gpu{i}", 0o666 | 0o020000, os.makedev(1, 3))
    devices = f"{folder}/gpu[0-{gpus - 1}]"
    (folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu Type=fake File={devices}\n")
    controller, *ports = free_ports(1 + len(names))
    node_lines = "\n".join(
        f"NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"
        f" Gres=gpu:fake:{gpus} State=UNKNOWN"
        for name, port in zip(names, ports, strict=True)
    )
    (folder / "slurm.conf").write_text(
        CONFIG.format(
            controller=socket.gethostname(), port=controller, folder=folder, nodes=node_lines
        )
    )


def _conf(folder: Path) -> str:
    return str(folder / "slurm.conf")


def _munged(folder: Path) -> list[str]:
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
    options = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    return ["munged", "--foreground", "--force", *options, f"--seed-file={folder}/munge.seed"]


def _slurmd(folder: Path, name: str) -> list[str]:
    script = 'mount --bind "$1/hosts" /etc/hosts; hostname "$2"; exec slurmd -D -N "$2" -f "$3"'
    return [
        "unshare",
        "--mount",
        "--uts",
        "bash",
        "-ec",
        script,
        "-",
        str(folder),
        name,
        _conf(folder),
    ]


def _start(folder: Path, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.out").open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def _idle(lab: Lab) -> int:
    query = ("sinfo", "--noheader", "--Node", "--partition=batch", "--format=%T")
    try:
        return lab.command(*query).split().count("idle")
    except RuntimeError:
        return 0  # the controller does not listen yet


def processes_of(folder: Path) -> list[int]:
    """Processes of this lab that are still there: daemons and ranks."""
    mark = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended meanwhile
            if mark in text:
                found.append(int(entry.name))
    return found


def _stop(folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pid in processes_of(folder):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, 9)
