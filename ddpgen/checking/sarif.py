"""Findings as SARIF 2.1.0, which code hosts show beside the lines."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ddpgen import __version__
from ddpgen.checking import pages, rules, suppressions
from ddpgen.checking.findings import Finding, Report
from ddpgen.checking.registry import ERROR, SEVERITIES, STYLE, WARNING

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {ERROR: "error", WARNING: "warning", STYLE: "note"}


def log(report: Report) -> str:
    """A log with one run."""
    ids = sorted({rule.id for rule in rules.RULES} | suppressions.ABOUT.keys())
    driver = {"name": "ddpgen", "version": __version__, "rules": [_rule(name) for name in ids]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, ids) for finding in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    severities = {rule.severity for rule in rules.RULES if rule.id == name} or {STYLE}
    worst = min(severities, key=SEVERITIES.index)
    page = pages.explain(name) if name in pages.ids() else f"{pages.title(name)}."
    return {
        "id": name,
        "shortDescription": {"text": pages.title(name)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": _LEVELS[worst]},
    }


def _result(finding: Finding, ids: list[str]) -> dict[str, Any]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    place = {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}
    return {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.why}. Remedy: {finding.remedy}."},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"line/v1": f"{finding.id}:{finding.text}"},
    }


def _uri(path: Path) -> str:
    """Relative to here where the path is below: a code host knows files by their place there."""
    here = Path.cwd()
    if path.is_absolute() and path.is_relative_to(here):
        path = path.relative_to(here)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
