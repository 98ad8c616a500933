"""Findings as text for people, JSON for programs, and commands for GitHub's workflows."""

import json
from collections import Counter
from collections.abc import Callable

from ddpgen.checking import pages, sarif
from ddpgen.checking.findings import Report
from ddpgen.checking.registry import ERROR, SEVERITIES, STYLE, WARNING

_GITHUB = {ERROR: "error", WARNING: "warning", STYLE: "notice"}


def text(report: Report) -> str:
    """A line for each finding, its remedy below it, and a summary."""
    lines = []
    for found in report.findings:
        place = f"{found.path}:{found.line}:{found.column}"
        lines += [f"{place}: {found.id} {found.severity}: {found.why}", f"    {found.remedy}"]
    lines += [f"note: {note}" for note in report.notes]
    lines.append(_summary(report))
    explained = [found.id for found in report.findings if found.id in pages.ids()]
    if explained:
        example = explained[0]
        lines.append(f"`ddpgen check --explain {example}` tells more about {example}")
    return "\n".join(lines) + "\n"


def _summary(report: Report) -> str:
    count = len(report.findings)
    if not count and not report.files:
        return "nothing was checked: there is no Python or launch file that can be read"
    verdict = _counted(count, "finding") if count else "nothing found"
    severities = Counter(finding.severity for finding in report.findings)
    parts = [f"{severities[name]} {name}" for name in SEVERITIES if severities[name]]
    kinds = f" ({', '.join(parts)})" if parts else ""
    return f"{verdict}{kinds} in {_counted(report.files, 'file')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_json(report: Report) -> str:
    """All of it as one object."""
    findings = [{**f._asdict(), "path": str(f.path)} for f in report.findings]
    content = {"findings": findings, "notes": report.notes, "files": report.files}
    return json.dumps(content, indent=2) + "\n"


def github(report: Report) -> str:
    """Workflow commands: GitHub shows each finding beside its line of the pull request."""
    lines = []
    for found in report.findings:
        place = {
            "file": found.path.as_posix(),
            "line": found.line,
            "endLine": found.end_line,
            "col": found.column,
            "endColumn": found.end_column,
            "title": f"ddpgen {found.id}",
        }
        properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
        message = _escaped(f"{found.why}. Remedy: {found.remedy}.")
        lines.append(f"::{_GITHUB[found.severity]} {properties}::{message}")
    lines += [f"::debug::{_escaped(note)}" for note in report.notes]
    return "\n".join([*lines, _summary(report)]) + "\n"


def _escaped(value: object) -> str:
    return str(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": text,
    "json": as_json,
    "sarif": sarif.log,
    "github": github,
}
