"""`ddpgen check`: what its flags ask for, in order, and the exit code."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ddpgen.checking import baseline, driver, fixing, pages, reporter, settings
from ddpgen.checking.findings import Report
from ddpgen.checking.settings import Settings
from ddpgen.errors import USER_MISTAKE, DdpgenError

NOTHING, FINDINGS = 0, 1


def run(arguments: Namespace) -> int:
    """Print the findings in training code, the list of rules, or the page of one.

    Raises:
        DdpgenError: a mistake in the command or in the settings.
    """
    if arguments.list or arguments.explain is not None:
        print(pages.listing() if arguments.list else pages.explain(arguments.explain), end="")
        return NOTHING
    _demand_sense(arguments)
    paths = [Path(path) for path in arguments.paths]
    report = driver.check(paths, _settings(paths, arguments))
    if arguments.fix:
        stream = sys.stdout if arguments.format == "text" else sys.stderr
        for line in fixing.fix(report, dry_run=arguments.dry_run):
            print(f"{'would change' if arguments.dry_run else 'changed'} {line}", file=stream)
    if arguments.write_baseline:
        baseline.write(report, Path(arguments.baseline))
        print(f"Wrote {arguments.baseline}: {len(report.findings)} known from here on.")
        return NOTHING
    if arguments.baseline:
        baseline.leave_out(report, Path(arguments.baseline))
    print(reporter.FORMATS[arguments.format](report), end="")
    return exit_code(report)


def exit_code(report: Report) -> int:
    """0 if nothing was found, 1 if something was, 2 where nothing could be checked."""
    if report.findings:
        return FINDINGS
    return NOTHING if report.files else USER_MISTAKE


def _demand_sense(arguments: Namespace) -> None:
    if not arguments.paths:
        raise DdpgenError("say what to check: ddpgen check PATH")
    if arguments.dry_run and not arguments.fix:
        raise DdpgenError("belongs to --fix", option="--dry-run")
    if arguments.write_baseline and not arguments.baseline:
        raise DdpgenError("say which file: --baseline FILE", option="--write-baseline")


def _settings(paths: Sequence[Path], arguments: Namespace) -> Settings:
    """The settings of the project, and what the flags change: they add to what is left out."""
    found = settings.read(paths)
    select, ignore = _names(arguments.select), _names(arguments.ignore)
    return replace(
        found,
        select=select or found.select,
        ignore=[*found.ignore, *ignore],
        severity=arguments.severity or found.severity,
    )


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for ids in given for name in ids.split(",") if name.strip()]
