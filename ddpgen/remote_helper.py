"""`git-remote-ddpgen`: lets git fetch the template of the installed ddpgen, without any network.

git starts this program for URLs that begin with `ddpgen://` and speaks the protocol of
gitremote-helpers with it over stdin and stdout, in bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from ddpgen import template_source


def main() -> int:
    """Serve one conversation with git."""
    with tempfile.TemporaryDirectory(prefix="ddpgen-") as folder:
        _serve(sys.stdin.buffer, sys.stdout.buffer, Path(folder))
    return 0


def _serve(requests: BinaryIO, answers: BinaryIO, folder: Path) -> None:
    bundle: Path | None = None
    fetching = False
    for line in requests:
        command = line.strip().split(b" ")[0]
        if command == b"capabilities":
            answers.write(b"fetch\n\n")
        elif command == b"list":
            bundle = template_source.build_bundle(folder)
            # Without a HEAD that points to a branch, copier's copy of the repository has none.
            answers.write(_git("list-heads", bundle) + b"@refs/heads/main HEAD\n\n")
        elif command == b"fetch":
            fetching = True
        elif fetching and bundle:  # an empty line ends a series of fetch commands
            _git("unbundle", bundle)
            answers.write(b"\n")
            fetching = False
        else:
            return
        answers.flush()


def _git(command: str, bundle: Path) -> bytes:
    """Run a bundle command in the repository that git named in GIT_DIR."""
    return subprocess.run(
        ["git", "bundle", command, bundle], stdout=subprocess.PIPE, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
