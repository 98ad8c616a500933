"""Repairs what an update left behind: old names in files of projects that ddpgen made."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpgen.checking.findings import Finding, Report
from ddpgen.errors import FAILURE, DdpgenError, show
from ddpgen.origin import ANSWERS_FILE
from ddpgen.renaming import leftovers
from ddpgen.renaming.leftovers import Renamed

FIXABLE = "U1"


def fix(report: Report, *, dry_run: bool) -> list[str]:
    """Use the new names where findings say so; return what changed, a line for each.

    The findings of what was changed leave the report. No library of rewriting is loaded where
    there is nothing to rewrite.

    Raises:
        DdpgenError: a file cannot be written.
    """
    by_file: dict[Path, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        if finding.id == FIXABLE:
            by_file[finding.path].append(finding)
    lines: list[str] = []
    for path, findings in by_file.items():
        changed = list(_rewritten(path, findings, dry_run=dry_run))
        lines += changed
        if changed and not dry_run:
            report.findings = [f for f in report.findings if f not in findings]
    return lines


def _rewritten(path: Path, findings: Sequence[Finding], *, dry_run: bool) -> Iterator[str]:
    from ddpgen.renaming import rewriting

    before = path.read_bytes()
    try:
        after = rewriting.renewed(before, _wanted(path, findings))
    except rewriting.UnreadableError:
        return
    if after != before and not dry_run:
        _write(path, after)
    for number, words in rewriting.changed_lines(before, after):
        yield f"{path}:{number}: {words}"


def _wanted(path: Path, findings: Sequence[Finding]) -> Renamed:
    """The new names of what is reported: a comment may have silenced the others."""
    root = next(f for f in path.resolve().parents if (f / ANSWERS_FILE).is_file())
    old = leftovers.find(root)
    renamed = old.of(path.resolve()) if old else Renamed({}, {})
    reported = {finding.why.partition(" is ")[0] for finding in findings}
    unreported = {*renamed.modules, *renamed.exported} - reported
    return renamed.without(name for name in unreported if not _is_below(name, reported, renamed))


def _is_below(name: str, reported: set[str], renamed: Renamed) -> bool:
    """Whether a name is the new spelling of one that is reported: `engine.loading.Window`."""
    home, _, last = name.rpartition(".")
    return any(f"{old}.{last}" in reported for old, new in renamed.modules.items() if new == home)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole, with the permissions that it has."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.chmod(path.stat().st_mode)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DdpgenError(
            f"cannot be written: {error.strerror}", option=show(path), exit_code=FAILURE
        ) from error
