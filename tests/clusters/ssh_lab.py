"""Hosts with sshd."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import network

PROGRAMS = (*network.PROGRAMS, "sshd", "ssh", "ssh-keygen")
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


@contextmanager
def hosts(count: int = 2) -> Iterator[network.Network]:
    """Start host1, host2, ... with sshd, and `login`; end everything on them afterwards."""
    names = [*(f"host{i + 1}" for i in range(count)), "login"]
    with tempfile.TemporaryDirectory(prefix="hosts-lab-") as temporary:
        folder = Path(temporary)
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
        subprocess.run(key, check=True)
        (folder / "sshd_config").write_text(SSHD.format(folder=folder))
        (folder / "ssh_config").write_text(SSH.format(folder=folder))
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it
        with network.network(names, folder, {"/etc/ssh/ssh_config": "ssh_config"}) as lab:
            servers = [start_sshd(lab, host) for host in names[:-1]]
            try:
                yield lab
            finally:
                for server in servers:
                    server.kill()
                    server.wait()


def start_sshd(lab: network.Network, host: str) -> subprocess.Popen[bytes]:
    """Start a host's sshd, and wait until it listens."""
    log = lab.folder / f"sshd-{host}.log"
    command = [shutil.which("sshd") or "", "-D", "-e", "-f", f"{lab.folder}/sshd_config"]
    with log.open("wb") as output:
        server = subprocess.Popen(lab.inside(host, *command), stdout=output, stderr=output)
    network.wait_for("the start of sshd", lambda: "listening" in log.read_text(), 20)
    return server


def start(
    lab: network.Network, command: Sequence[str], cwd: Path, env: dict[str, str]
) -> subprocess.Popen[str]:
    """Start a command on `login`, with both output streams in one pipe."""
    return subprocess.Popen(
        lab.inside("login", *command),
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
