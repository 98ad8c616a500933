"""A real SLURM cluster of several nodes on this machine, in a temporary folder.

Nothing of the system's configuration is read or written. Controller and nodes are hosts with names
and addresses of their own on a network of their own, so they find and lose each other as on a real
cluster. GPUs are character devices that SLURM counts and hands out like real ones.
"""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clusters import network

PROGRAMS = (*network.PROGRAMS, "slurmctld", "slurmd", "munged", "sbatch")

CONFIG = """\
ClusterName=lab
SlurmctldHost=login({address})
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
SlurmdTimeout={slurmd_timeout}
KillWait={kill_wait}
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=9
"""


def skip_if_impossible() -> None:
    """Skip the test where the lab cannot be had, saying why."""
    network.skip_without(PROGRAMS)


@dataclass(frozen=True)
class Lab:
    """A running cluster; its commands are the real ones, and run where users log in."""

    hosts: network.Network
    daemons: dict[str, subprocess.Popen[bytes]]  # by host

    @property
    def folder(self) -> Path:
        """Everything of the cluster is in it."""
        return self.hosts.folder

    def command(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """Run one of SLURM's commands and return what it prints; raises when it fails."""
        done = subprocess.run(
            self.hosts.inside("login", *arguments),
            check=False,
            cwd=cwd,
            env={**os.environ, **(env or {}), "SLURM_CONF": str(self.folder / "slurm.conf")},
            capture_output=True,
            text=True,
            timeout=300,
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

    def start_node(self, node: str) -> None:
        """Start a node's daemon, as when the node is booted."""
        self.daemons[node] = self._start(node, f"slurmd-{node}", "slurmd", "-D", "-N", node)

    def fail_node(self, node: str) -> None:
        """End the node's daemon and all that it started, as when its power fails."""
        self.hosts.kill(node)
        self.daemons[node].wait()

    def idle_nodes(self) -> int:
        """How many nodes are ready and have nothing to do."""
        query = ("sinfo", "--noheader", "--Node", "--partition=batch", "--format=%T")
        try:
            return self.command(*query).split().count("idle")
        except RuntimeError:
            return 0  # the controller does not listen yet

    def _start(self, host: str, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as output:
            return subprocess.Popen(
                self.hosts.inside(host, *command),
                env={**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def start_controller(self) -> None:
        """Start the key server that all hosts share, and the controller."""
        self.daemons["keys"] = self._start("login", "munged", *_munged(self.folder))
        self.wait("munge's socket", (self.folder / "munge.socket").exists, 10)
        self.daemons["controller"] = self._start("login", "slurmctld", "slurmctld", "-D")

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = 300) -> None:
        """Wait for a condition; raises with the name of what did not come."""
        network.wait_for(what, condition, seconds)


@contextmanager
def cluster(
    nodes: int = 4, cpus: int = 4, gpus: int = 2, slurmd_timeout: int = 10, kill_wait: int = 5
) -> Iterator[Lab]:
    """Start a cluster of `nodes` nodes named node1, node2, ... and end it afterwards.

    Its timeouts, in seconds, are shorter than SLURM's own defaults, 300 and 30.
    """
    names = [f"node{i + 1}" for i in range(nodes)]
    with tempfile.TemporaryDirectory(prefix="slurm-lab-") as temporary:
        folder = Path(temporary)
        with network.network([*names, "login"], folder) as hosts:
            timeouts = {"slurmd_timeout": slurmd_timeout, "kill_wait": kill_wait}
            _write_files(hosts, cpus, gpus, timeouts)
            lab = Lab(hosts, {})
            try:
                lab.start_controller()
                for name in names:
                    lab.start_node(name)
                lab.wait("the nodes' registration", lambda: lab.idle_nodes() == nodes, 60)
                yield lab
            finally:
                _stop(lab)


def _write_files(hosts: network.Network, cpus: int, gpus: int, timeouts: Mapping[str, int]) -> None:
    folder = hosts.folder
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    (folder / "state").mkdir()
    (folder / "plugstack.conf").touch()
    for i in range(gpus):
        os.mknod(folder / f"gpu{i}", 0o666 | 0o020000, os.makedev(1, 3))
    devices = f"{folder}/gpu[0-{gpus - 1}]"
    (folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu Type=fake File={devices}\n")
    node_lines = "\n".join(
        f"NodeName={name} NodeAddr={hosts.address(name)} CPUs={cpus} RealMemory=1000"
        f" Gres=gpu:fake:{gpus} State=UNKNOWN"
        for name in hosts.names
        if name != "login"
    )
    own = {"address": hosts.address("login"), "folder": folder, "nodes": node_lines}
    (folder / "slurm.conf").write_text(CONFIG.format(**own, **timeouts))


def _munged(folder: Path) -> list[str]:
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
    options = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    return ["munged", "--foreground", "--force", *options, f"--seed-file={folder}/munge.seed"]


def _stop(lab: Lab) -> None:
    for daemon in reversed(lab.daemons.values()):
        daemon.terminate()
    for daemon in lab.daemons.values():
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
