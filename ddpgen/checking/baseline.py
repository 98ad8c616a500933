"""Findings that a team knows: written to a file once, and not reported from then on.

A finding is known by its file, its id and the text of its line, so that it may move up and down.
"""

import json
import os
from collections import Counter
from pathlib import Path

from ddpgen.checking.findings import Finding, Report
from ddpgen.errors import FAILURE, DdpgenError, show


def write(report: Report, file: Path) -> None:
    """Write all findings to a file.

    Raises:
        DdpgenError: the file cannot be written.
    """
    known: dict[str, dict[str, int]] = {}
    for (path, what), count in sorted(Counter(_key(f, file) for f in report.findings).items()):
        known.setdefault(path, {})[what] = count
    text = json.dumps({"findings": known}, indent=1) + "\n"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DdpgenError(
            f"cannot be written: {error.strerror}", option=show(file), exit_code=FAILURE
        ) from error


def leave_out(report: Report, file: Path) -> None:
    """Take the findings out of a report that a file knows, and say how many.

    Raises:
        DdpgenError: the file is missing, or no file of this kind.
    """
    known = _read(file)
    left, known_now = [], 0
    for finding in report.findings:
        key = _key(finding, file)
        if known[key] > 0:
            known[key] -= 1
            known_now += 1
        else:
            left.append(finding)
    report.findings = left
    report.notes.append(f"{known_now} known from {show(file)}")
    if gone := sum(count for count in known.values() if count > 0):
        report.notes.append(f"{gone} in {show(file)} are gone: write the file again")


def _key(finding: Finding, file: Path) -> tuple[str, str]:
    """Where and what a finding is; the place is told from the file's folder."""
    place = os.path.relpath(finding.path.resolve(), file.resolve().parent)
    return Path(place).as_posix(), f"{finding.id} {finding.text}"


def _read(file: Path) -> Counter[tuple[str, str]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        known = {
            (path, what): int(count)
            for path, entries in content["findings"].items()
            for what, count in entries.items()
        }
    except FileNotFoundError as error:
        remedy = "write it first: add --write-baseline"
        raise DdpgenError("there is no such file", option=show(file), remedy=remedy) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DdpgenError("is no file of known findings", option=show(file)) from error
    return Counter(known)
