"""Findings as text for people, JSON for programs, SARIF 2.1.0 for code hosts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddpgen import __version__
from ddpgen.checking import pages, rules, suppressions
from ddpgen.checking.driver import Finding, Report

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def text(report: Report) -> str:
    """A line for each finding, its remedy below it, and a summary."""
    lines = []
    for finding in report.findings:
        place = f"{finding.path}:{finding.line}:{finding.column}"
        lines += [f"{place}: {finding.id} {finding.why}", f"    {finding.remedy}"]
    lines += [f"note: {note}" for note in report.notes]
    count = len(report.findings)
    verdict = _counted(count, "finding") if count else "nothing found"
    lines.append(f"{verdict} in {_counted(report.files, 'file')}")
    if count:
        example = report.findings[0].id
        lines.append(f"`ddpgen check --explain {example}` tells more about {example}")
    return "\n".join(lines) + "\n"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_json(report: Report) -> str:
    """All of it as one object."""
    findings = [{**f._asdict(), "path": str(f.path)} for f in report.findings]
    content = {"findings": findings, "notes": report.notes, "files": report.files}
    return json.dumps(content, indent=2) + "\n"


def sarif(report: Report) -> str:
    """A log with one run."""
    ids = sorted({rule.id for rule in rules.RULES} | suppressions.ABOUT.keys())
    driver = {
        "name": "ddpgen",
        "version": __version__,
        "rules": [{"id": name, "shortDescription": {"text": pages.title(name)}} for name in ids],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(finding, ids) for finding in report.findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding, ids: list[str]) -> dict[str, Any]:
    return {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": "warning",
        "message": {"text": f"{finding.why}. Remedy: {finding.remedy}."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding.path)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }
            }
        ],
    }


def _uri(path: Path) -> str:
    """Relative where the path is, since a code host knows files by their place in the checkout."""
    from urllib.parse import quote

    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


FORMATS: dict[str, Callable[[Report], str]] = {"text": text, "json": as_json, "sarif": sarif}
