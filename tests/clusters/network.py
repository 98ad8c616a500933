"""Hosts on this machine with names, addresses and a network of their own: Linux namespaces."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = ("ip", "nsenter", "unshare")


def skip_without(programs: Sequence[str]) -> None:
    """Skip the test, saying why, where networks cannot be made or a program is missing."""
    if os.geteuid() != 0:
        pytest.skip("hosts with names and networks of their own need root")
    if missing := [name for name in programs if shutil.which(name) is None]:
        pytest.skip(f"missing: {', '.join(missing)} (tests/clusters/install.sh installs them)")


def environment(*folders: Path) -> dict[str, str]:
    """A user's environment: programs of `folders` first, then those of this interpreter."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    path = [*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**kept, "PATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}  # a thread per process


@dataclass(frozen=True)
class Network:
    """A switch, and a cable from it to each host. `login` is where users sit."""

    names: Sequence[str]
    folder: Path
    files: Mapping[str, str] = field(default_factory=dict)  # of the system -> in `folder`
    prefix: str = field(default_factory=lambda: f"lab{secrets.token_hex(3)}")

    def address(self, host: str) -> str:
        """The host's address on the network."""
        return f"10.213.0.{self.names.index(host) + 1}"

    def inside(self, host: str, *command: str) -> list[str]:
        """The command, with the host's network, its name and the files that it has of its own."""
        files = {"/etc/hosts": "hosts", **self.files}
        binds = [f"mount --bind '{self.folder}/{own}' {path};" for path, own in files.items()]
        script = f'hostname "$1"; {" ".join(binds)} shift; exec "$@"'
        # Not `ip netns exec`: its /sys has no control groups, which slurmd wants to see.
        enter = ["nsenter", f"--net=/run/netns/{self.prefix}-{host}", "unshare", "--mount", "--uts"]
        return [*enter, "bash", "-ec", script, "-", host, *command]

    def cut(self, host: str) -> None:
        """Pull the host's cable out of the switch."""
        _run("ip", "-n", f"{self.prefix}-switch", "link", "set", host, "down")

    def mend(self, host: str) -> None:
        """Put the cable back."""
        _run("ip", "-n", f"{self.prefix}-switch", "link", "set", host, "up")

    def processes(self, host: str) -> list[int]:
        """What runs on a host."""
        query = ["ip", "netns", "pids", f"{self.prefix}-{host}"]
        found = subprocess.run(query, capture_output=True, text=True, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def signal_rank(self, host: str, number: signal.Signals) -> None:
        """Send a signal to one of a host's ranks: to the newest process that runs train.py."""
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in self.processes(host)}
        os.kill(max(pid for pid in commands if b"train.py\0" in commands[pid]), number)

    def kill(self, host: str) -> None:
        """End all that runs on a host at once, as when its power fails."""
        for pid in self.processes(host):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, 9)


@contextmanager
def network(
    names: Sequence[str], folder: Path, files: Mapping[str, str] | None = None
) -> Iterator[Network]:
    """Connect the hosts; afterwards all that still runs on them is ended.

    Args:
        names: the hosts.
        folder: it gets the hosts' /etc/hosts, and has the other `files`.
        files: files of the system -> those in `folder` that the hosts see in their place.
    """
    hosts = Network(names, folder, files or {})
    lines = [f"{hosts.address(name)} {name}\n" for name in names]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
    try:
        _connect(hosts)
        yield hosts
    finally:
        for name in (*names, "switch"):
            if Path("/run/netns", f"{hosts.prefix}-{name}").exists():
                hosts.kill(name)
                _run("ip", "netns", "delete", f"{hosts.prefix}-{name}")


def _connect(hosts: Network) -> None:
    switch = f"{hosts.prefix}-switch"
    _run("ip", "netns", "add", switch)
    _run("ip", "-n", switch, "link", "add", "bridge", "up", "type", "bridge")
    for name in hosts.names:
        host = f"{hosts.prefix}-{name}"
        _run("ip", "netns", "add", host)
        cable = ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", host]
        _run("ip", "-n", switch, *cable)
        _run("ip", "-n", switch, "link", "set", name, "up", "master", "bridge")
        _run("ip", "-n", host, "address", "add", f"{hosts.address(name)}/24", "dev", "eth0")
        _run("ip", "-n", host, "link", "set", "eth0", "up")
        _run("ip", "-n", host, "link", "set", "lo", "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def wait_for(what: str, condition: Callable[[], bool], seconds: float) -> None:
    """Ask again and again until `condition` holds; raises TimeoutError otherwise."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.1)


def processes_of(folder: Path) -> list[int]:
    """Processes of a lab that are still there: daemons and ranks."""
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
