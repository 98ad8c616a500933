"""Jobs on the SLURM lab, submitted as a user would."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clusters.slurm_lab import Lab

ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


@dataclass(frozen=True)
class Job:
    """A submitted job and its project."""

    lab: Lab
    folder: Path
    number: str

    @property
    def log(self) -> str:
        """All that it said so far, over restarts."""
        path = self.folder / f"slurm-{self.number}.log"
        return path.read_text() if path.exists() else ""

    @property
    def run(self) -> Path:
        """The folder of its run."""
        return self.folder / "runs" / f"slurm-lab-{self.number}"

    @property
    def nodes(self) -> list[str]:
        """The nodes it has been given: the last is not where its script runs."""
        listed = self.lab.command("squeue", "--noheader", "--jobs", self.number, "--format=%N")
        return self.lab.command("scontrol", "show", "hostnames", listed).split()

    def restarts(self) -> int:
        """How often it was requeued."""
        found = re.search(
            r"Restarts=(\d+)", self.lab.command("scontrol", "show", "job", self.number)
        )
        assert found
        return int(found[1])

    def wait_for_steps(self) -> None:
        """Until it trains."""
        self.lab.wait("a first step", lambda: "\nstep " in self.log)

    def wait_for_checkpoint(self) -> None:
        """Until it has saved something that it can go on from."""
        self.lab.wait("a checkpoint", lambda: any(self.run.glob("checkpoints/*.json")))

    def finish(self, state: str = "COMPLETED", seconds: float = 600) -> str:
        """Wait for its end and return its log, which is also the message when it went wrong."""
        what = f"the end of job {self.number}"
        self.lab.wait(what, lambda: self.lab.state(self.number) in ENDS, seconds)
        found = self.lab.state(self.number)
        assert found == state, f"{found}\n{self.log}"
        return self.log


def submit(
    lab: Lab,
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    script: str = "launch/slurm.sbatch",
    options: tuple[str, ...] = (),
) -> Job:
    """Submit a script of the project.

    Args:
        lab: the cluster.
        folder: the project, which is where users submit from.
        environment: the user's.
        arguments: for the script.
        script: path in the project.
        options: of sbatch; they win over those in the script.
    """
    command = ["sbatch", "--parsable", *options, script, *arguments]
    return Job(lab, folder, lab.command(*command, cwd=folder, env=environment))
