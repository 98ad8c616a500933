"""The flags of `ddpgen check`."""

import argparse

from ddpgen.checking.registry import SEVERITIES

EPILOG = (
    "Exit codes: 0 nothing found, 1 findings, 2 a mistake in the command or nothing to check. "
    "The table [tool.ddpgen.check] of pyproject.toml has select, ignore, severity, exclude and "
    "per-file-ignores."
)


def add(check: argparse.ArgumentParser) -> None:
    """Give a parser the flags."""
    check.description = "Read Python and launch files, run nothing, and report pitfalls of DDP."
    check.epilog = EPILOG
    check.add_argument("paths", nargs="*", metavar="PATH", help="a file or a folder")
    check.add_argument("--format", choices=["text", "json", "sarif", "github"], default="text")
    for name, purpose in (
        ("--select", "only these, as in G3,K1; a letter is all of its theme"),
        ("--ignore", "all but these"),
    ):
        check.add_argument(name, action="append", default=[], metavar="IDS", help=purpose)
    check.add_argument(
        "--severity",
        choices=SEVERITIES,
        help="the least bad to report (default: style); an error is a hang, a crash, wrong numbers",
    )
    check.add_argument("--baseline", metavar="FILE", help="leave out the findings in this file")
    check.add_argument("--write-baseline", action="store_true", help="write all findings there")
    check.add_argument(
        "--fix", action="store_true", help="use new names where an update left old ones (U1)"
    )
    check.add_argument("--dry-run", action="store_true", help="with --fix: show, change nothing")
    about = check.add_mutually_exclusive_group()
    about.add_argument("--list", action="store_true", help="what is looked for")
    about.add_argument("--explain", metavar="ID", help="the page of one rule, with examples")
