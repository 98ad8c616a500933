"""Which NCCL log is which rank's, and what it says of bootstrap, network, rings and warnings.

DEBUG=1 before a launch file makes each process write one (nccl.debug.env). Gather those of all
hosts, then: python -m tools.preflight.nccl_logs /tmp/nccl.*.log
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# host:process:thread [device] words, behind a time in newer versions, or a launcher's mark.
LINE = re.compile(r"([^\s:]+):(\d+):\d+ \[-?\d+\] (.*)")
COMMUNICATOR = re.compile(r"comm \S+ rank (\d+) nranks (\d+) .*Init (START|COMPLETE)")
BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[0\])?(\S+?)(?:<\d+>|$)")
NETWORK = re.compile(r"Using network (.+)")
CARDS = re.compile(r"NET/\w+ ?: Using (.+?)(?: ?; OOB|$)")
CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\] .*via (\S+)")
WARNING = re.compile(r"NCCL WARN (.*)")


@dataclass
class Log:
    """What one process says; texts are empty where its log does not say."""

    path: Path
    host: str = ""
    process: str = ""
    rank: int = -1
    size: int = 0  # ranks of its largest communicator, which is that of the whole job
    complete: bool = False
    bootstrap: str = ""  # interface and address
    network: str = ""
    cards: str = ""
    rings: bool = False
    ways: Counter[str] = field(default_factory=Counter)  # how many channels go over each
    warnings: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Take in all lines of the file."""
        for text in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line := LINE.search(text):
                self.host, self.process, words = line.groups()
                self.take(words)

    def take(self, words: str) -> None:
        """What one line says."""
        if found := COMMUNICATOR.search(words):
            rank, size = int(found[1]), int(found[2])
            if size >= self.size:
                self.rank, self.size, self.complete = rank, size, found[3] == "COMPLETE"
        elif found := BOOTSTRAP.search(words):
            self.bootstrap = found[1]
        elif found := NETWORK.search(words):
            self.network = found[1]
        elif found := CARDS.search(words):
            self.cards = " ".join(re.sub(r"<\d+>", "", found[1]).split())
        elif found := CHANNEL.search(words):
            self.ways["/".join(found[3].split("/")[:2])] += 1
        elif found := WARNING.search(words):
            self.warnings.append(found[1])
        elif "Connected all rings" in words:
            self.rings = True

    def describe(self) -> str:
        """A line of the table."""
        place = f"rank {self.rank} of {self.size}" if self.size else "no rank"
        state = "joined" if self.complete else "NEVER JOINED"
        rings = "connected" if self.rings else "NOT CONNECTED"
        ways = ", ".join(f"{way} {number}" for way, number in sorted(self.ways.items()))
        return (
            f"{place}, {self.host} process {self.process}, {self.path.name}: {state}\n"
            f"    bootstrap {self.bootstrap or 'NOT FOUND'}\n"
            f"    network   {self.network or 'NOT CHOSEN'}{f': {self.cards}' * bool(self.cards)}\n"
            f"    rings     {rings}{f', channels over {ways}' * bool(ways)}"
        )


def read(paths: Sequence[Path]) -> list[Log]:
    """The logs of NCCL among these files, by rank."""
    logs = [Log(path) for path in paths]
    for log in logs:
        log.read()
    return sorted((log for log in logs if log.host), key=lambda log: (log.rank, str(log.path)))


def conclude(logs: Sequence[Log]) -> list[str]:
    """What the logs say together: ranks without one, those that did not join, other networks."""
    size = max((log.size for log in logs), default=0)
    ranks = Counter(log.rank for log in logs if log.size == size)
    lines = [f"no log of rank {rank}: gather it" for rank in range(size) if not ranks[rank]]
    twice = [str(rank) for rank, number in sorted(ranks.items()) if number > 1]
    if twice:
        lines.append(f"several logs of rank {', '.join(twice)}: some are of an earlier start")
    if late := [str(log.rank) for log in logs if log.size and not log.complete]:
        lines.append(f"rank {', '.join(late)} never joined: the others wait in the bootstrap")
    networks: dict[str, list[str]] = {}
    for log in logs:
        networks.setdefault(log.network or "none", []).append(str(log.rank))
    if len(networks) > 1:
        uses = (f"{name} on rank {', '.join(ranks)}" for name, ranks in networks.items())
        lines.append(f"networks differ: {'; '.join(uses)}")
    for log in logs:
        for warning, times in Counter(log.warnings).items():
            lines.append(f"rank {log.rank} warns {f'{times} times ' * (times > 1)}of: {warning}")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table of all logs, and what follows from them."""
    parser = argparse.ArgumentParser(description="Say which NCCL log is which rank's.")
    parser.add_argument("logs", nargs="+", type=Path, help="files that NCCL_DEBUG_FILE named")
    logs = read(parser.parse_args(argv).logs)
    if not logs:
        raise SystemExit("none of these files has lines of NCCL_DEBUG=INFO")
    print(*(log.describe() for log in logs), *conclude(logs), sep="\n")


if __name__ == "__main__":
    main()
