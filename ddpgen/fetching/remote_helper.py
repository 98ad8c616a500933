"""`git-remote-ddpgen`: lets git fetch the template of the installed ddpgen, without any network.

git starts this program for URLs that begin with `ddpgen://` and speaks the protocol of
gitremote-helpers with it over stdin and stdout, in bytes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from ddpgen.fetching import template_source


def main() -> int:
    """Serve one conversation with git."""
    with tempfile.TemporaryDirectory(prefix="ddpgen-") as folder:
        _serve(sys.stdin.buffer, sys.stdout.buffer, Path(folder))
    return 0


def _serve(requests: BinaryIO, answers: BinaryIO, folder: Path) -> None:
    bundles: list[Path] = []
    fetching = False
    for line in requests:
        command = line.strip().split(b" ")[0]
        if command == b"capabilities":
            answers.write(b"fetch\n\n")
        elif command == b"list":
            bundles = bundles or template_source.bundles(folder)
            heads = [_git("list-heads", bundle) for bundle in bundles]
            answers.write(b"".join(heads))
            # Without a HEAD that points to a branch, copier's copy of the repository has none.
            answers.write(heads[-1].split()[0] + b" refs/heads/main\n@refs/heads/main HEAD\n\n")
        elif command == b"fetch":
            fetching = True
        elif fetching:  # an empty line ends a series of fetch commands
            for bundle in bundles:
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
