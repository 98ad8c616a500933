"""Hosts with names, addresses and sshd of their own: network namespaces on a bridge."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.clusters.slurm_lab import wait_for

PROGRAMS = ("ip", "sshd", "ssh", "ssh-keygen", "unshare")
SSHD = """\
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
"""
SSH = """\
Host *
  IdentityFile {folder}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def missing_programs() -> list[str]:
    """Names of the programs that the lab needs and this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass(frozen=True)
class Hosts:
    """Running hosts; the last one, `login`, is where a user sits."""

    folder: Path
    prefix: str
    names: Sequence[str]

    def start(
        self, host: str, *command: str, cwd: Path, env: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a command on a host, with both output streams in one pipe."""
        return subprocess.Popen(
            _inside(self.folder, self.prefix, host, command),
            cwd=cwd,
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _inside(folder: Path, prefix: str, host: str, command: Sequence[str]) -> list[str]:
    """The command with the host's network, name, /etc/hosts and ssh settings."""
    script = (
        'hostname "$2"; mount --bind "$1/hosts" /etc/hosts;'
        'mount --bind "$1/ssh_config" /etc/ssh/ssh_config; shift 2; exec "$@"'
    )
    enter = ["ip", "netns", "exec", f"{prefix}-{host}", "unshare", "--mount", "--uts"]
    return [*enter, "bash", "-ec", script, "-", str(folder), host, *command]


@contextmanager
def hosts(count: int = 2) -> Iterator[Hosts]:
    """Start host1, host2, ... with sshd, and `login`; end everything on them afterwards."""
    names = [*(f"host{i + 1}" for i in range(count)), "login"]
    folder = Path(tempfile.mkdtemp(prefix="hosts-lab-"))
    prefix = f"lab{secrets.token_hex(3)}"
    servers: list[subprocess.Popen[bytes]] = []
    try:
        _write_files(folder, names)
        _connect(prefix, names)
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it
        for name in names[:-1]:
            command = [shutil.which("sshd") or "", "-D", "-e", "-f", f"{folder}/sshd_config"]
            with (folder / f"sshd-{name}.log").open("wb") as log:
                inside = _inside(folder, prefix, name, command)
                servers.append(subprocess.Popen(inside, stdout=log, stderr=log))
        wait_for(
            "the start of sshd",
            lambda: all("listening" in p.read_text() for p in folder.glob("sshd-*.log")),
            20,
        )
        yield Hosts(folder, prefix, names)
    finally:
        for server in servers:
            server.kill()
            server.wait()
        _disconnect(prefix, names)
        shutil.rmtree(folder)


def _write_files(folder: Path, names: Sequence[str]) -> None:
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/key")
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    (folder / "ssh_config").write_text(SSH.format(folder=folder))
    lines = [f"10.213.0.{number} {name}\n" for number, name in enumerate(names, 1)]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))


def _connect(prefix: str, names: Sequence[str]) -> None:
    """A namespace for a switch, and one per host with a cable to it."""
    switch = f"{prefix}-switch"
    _run("ip", "netns", "add", switch)
    _run("ip", "-n", switch, "link", "add", "bridge", "up", "type", "bridge")
    for number, name in enumerate(names, 1):
        host = f"{prefix}-{name}"
        _run("ip", "netns", "add", host)
        cable = ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", host]
        _run("ip", "-n", switch, *cable)
        _run("ip", "-n", switch, "link", "set", name, "up", "master", "bridge")
        _run("ip", "-n", host, "address", "add", f"10.213.0.{number}/24", "dev", "eth0")
        _run("ip", "-n", host, "link", "set", "eth0", "up")
        _run("ip", "-n", host, "link", "set", "lo", "up")


def _disconnect(prefix: str, names: Sequence[str]) -> None:
    for name in (*names, "switch"):
        namespace = f"{prefix}-{name}"
        if not Path("/run/netns", namespace).exists():
            continue
        found = subprocess.run(
            ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
        )
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(int(pid), 9)
        _run("ip", "netns", "delete", namespace)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
