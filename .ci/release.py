"""Makes a release: `make release VERSION=0.2.0`.

Everything happens in a clone, which the checkout takes over at the end: a release that is refused
leaves nothing behind. It makes two commits: the release, with its tag and its bundle of the
template, and one that opens the working version after it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ddpgen import origin
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source

ROOT = Path(__file__).resolve().parents[1]
BUNDLES = "ddpgen/releases"
UPDATE_TESTS = ["tests/update", "tests/generator/test_update.py", "tests/generator/test_wheel.py"]
NEXT = "## Unreleased\n\n"


def main() -> int:
    """Release the version named on the command line."""
    try:
        (version,) = sys.argv[1:]
        notes = check(version)
        with tempfile.TemporaryDirectory(prefix="ddpgen-release-") as folder:
            clone = Path(folder) / "ddpgen"
            git("clone", "--quiet", str(ROOT), str(clone))
            release(clone, version, notes)
            tag = f"refs/tags/v{version}"
            git("fetch", "--quiet", str(clone), "HEAD", f"{tag}:{tag}")
            git("merge", "--quiet", "--ff-only", "FETCH_HEAD")
            shutil.copytree(clone / "dist", ROOT / "dist", dirs_exist_ok=True)
    except ValueError:
        print("usage: make release VERSION=0.2.0", file=sys.stderr)
        return 2
    except DdpgenError as error:
        print(f"release: {error}; nothing was changed", file=sys.stderr)
        return 1
    print(f"Released {version}: tag v{version}, and a wheel in dist/.")
    return 0


def check(version: str) -> str:
    """Return the changelog's entries of a version that can be released.

    Raises:
        DdpgenError: it cannot.
    """
    if not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", version):
        raise DdpgenError(f"{version}: a version is three numbers, such as 0.2.0")
    if git("status", "--porcelain"):
        raise DdpgenError("the work tree is not clean: commit first")
    known = template_source.released()
    if known and origin.order(f"v{version}") <= origin.order([*known][-1]):
        raise DdpgenError(f"{version} is not later than {[*known][-1]}")
    if git("tag", "--list", f"v{version}"):
        raise DdpgenError(f"the tag v{version} exists already")
    changed = git("log", "--diff-filter=MDRT", "--format=%h %s", "--", BUNDLES)
    if changed:
        raise DdpgenError(f"the bundle of an old release was changed: {changed}")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if NEXT.strip() in text:
        raise DdpgenError(f"CHANGELOG.md: rename `## Unreleased` to `## {version}` first")
    section = re.search(
        rf"^## {re.escape(version)}\n\n(.+?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if not section:
        raise DdpgenError(f"CHANGELOG.md has no entries below `## {version}`")
    return section[1].strip()


def release(clone: Path, version: str, notes: str) -> None:
    """Make the two commits in a clone, with the tests between them.

    Raises:
        DdpgenError: a check failed.
    """
    set_version(clone, version)
    with tempfile.TemporaryDirectory(prefix="ddpgen-release-") as folder:
        # The clone's own package: its template, its bundles.
        run(clone, "-c", MAKE_BUNDLE, folder, version, notes, what="the bundle")
    git("-C", str(clone), "add", "--all", "--force", BUNDLES)
    git("-C", str(clone), "commit", "--quiet", "--all", "--message", f"Release {version}")
    changes = git("-C", str(clone), "diff", "--name-status", "HEAD~", "--", BUNDLES)
    if changes.split() != ["A", f"{BUNDLES}/{version}.bundle"]:
        raise DdpgenError(f"a release adds one bundle, but this changes {changes}")
    git("-C", str(clone), "tag", f"v{version}")
    pytest = ("-m", "pytest", "-q", "-x", "--numprocesses=auto")
    run(clone, *pytest, *UPDATE_TESTS, what="the update tests")
    audit(clone)
    pip = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(clone, *pip, "--wheel-dir", "dist", ".", what="the wheel")
    set_version(clone, f"{version}+dev")
    changelog = clone / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(text.replace(f"## {version}\n", f"{NEXT}## {version}\n", 1))
    git("-C", str(clone), "commit", "--quiet", "--all", "--message", f"Work after {version}")


MAKE_BUNDLE = """
import sys, shutil
from pathlib import Path
from ddpgen.fetching import template_source as source
folder, version, notes = sys.argv[1:]
message = f"ddpgen {version}\\n\\n{notes}"
earlier = list(source.released().values())
source.RELEASES.mkdir(exist_ok=True)
shutil.copy(source.make_bundle(Path(folder), f"v{version}", message, earlier), source.RELEASES)
"""


def set_version(clone: Path, version: str) -> None:
    """Write the one place that holds ddpgen's version."""
    path = clone / "ddpgen/__init__.py"
    text = re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', path.read_text())
    path.write_text(text)


def audit(clone: Path) -> None:
    """Look for known vulnerabilities, where pip-audit is installed and reaches its database."""
    if not shutil.which("pip-audit"):
        print("no pip-audit here: dependencies are not audited", file=sys.stderr)
        return
    done = subprocess.run(
        ["pip-audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    if "known vulnerabilit" in done.stderr and done.returncode:
        raise DdpgenError("a dependency has a known vulnerability")


def run(clone: Path, *arguments: str, what: str) -> None:
    """Run a Python of this environment on the clone's package."""
    command = ["env", f"PYTHONPATH={clone}", sys.executable, *arguments]
    if subprocess.run(command, cwd=clone, check=False).returncode:
        raise DdpgenError(f"{what} failed")


def git(*arguments: str) -> str:
    """Run git in the checkout, with its user's settings, and return what it prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise DdpgenError(f"git {' '.join(arguments)} failed")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
