"""The command line: flags and words, no logic.

Little is imported here, not even `pathlib` or `typing`, so that help answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

from ddpgen import __version__, streams
from ddpgen.errors import FAILURE, INTERRUPTED, USER_MISTAKE, DdpgenError

_EXAMPLES = """\
examples:
  ddpgen new my-project                        ask, then create my-project/
  ddpgen new my-project --defaults             ask nothing
  ddpgen new vision --defaults --data model=resnet --data clusters=local,slurm
  ddpgen new flats --data flats.csv            look at the data, propose, ask the rest
  ddpgen new vision --answers answers.toml     answers from a file; ask the rest
  ddpgen new my-project --defaults --dry-run   list the files, write nothing
  ddpgen web                                   the same in the browser
  ddpgen options                               every option with its choices
  ddpgen check path/to/code                    pitfalls of DDP in code that you have

--data goes before --answers, both go before what would be asked or assumed.
Without a terminal nothing is asked: give --defaults or all answers.
Exit codes: 0 done, 1 a failure of the machine, 2 a mistake in the command,
130 cancelled. Unless it is 0, nothing was changed; but update, set and launch
also end with 1 when they leave conflicts for you, which they list.

In a project:
  ddpgen update                                what a newer ddpgen does better
  ddpgen set amp=fp16                          another answer
  ddpgen diff                                  what you changed
  ddpgen launch slurm --nodes 8                launch files for another cluster or size
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failure, 2 user's mistake, 130 interrupted."""
    streams.prepare()
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except DdpgenError as error:
        print(f"ddpgen: {error}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, EOFError):
        print("\nddpgen: cancelled, nothing was changed", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if streams.is_lost(error):
            return FAILURE
        raise


def _run(words: Sequence[str]) -> int:
    parser = _parser(words)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        hint = "; write an answer as --data KEY=VALUE, each with a --data of its own"
        hint *= hasattr(arguments, "data")
        if arguments.command == "launch" and unknown[0].partition("=")[0] == "--cluster":
            hint = "; a cluster needs no option: ddpgen launch slurm"
        elif unknown[0].partition("=")[0] == "--project":
            hint = f"; a project needs no option: ddpgen {arguments.command} PATH"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return USER_MISTAKE
    from ddpgen import commands

    return commands.run(arguments)


class _Version(argparse.Action):
    """Prints the versions, and reads what the template requires only then."""

    def __call__(self, *_: object) -> None:
        from ddpgen.fetching import template_source

        needs = template_source.requirements()
        print(f"ddpgen {__version__} (template {template_source.TAG}; projects need {needs})")
        raise SystemExit(0)


def _parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser. Only the commands among `words` get their arguments: that takes time."""
    parser = argparse.ArgumentParser(
        prog="ddpgen",
        allow_abbrev=False,
        description="Generate a complete PyTorch DistributedDataParallel project.",
        epilog=_EXAMPLES,
        formatter_class=_formatter(argparse.RawDescriptionHelpFormatter),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the versions and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    form = _formatter(argparse.HelpFormatter)
    for name, (purpose, fill) in _COMMANDS.items():
        command = commands.add_parser(name, help=purpose, allow_abbrev=False, formatter_class=form)
        if words is None or name in words:
            fill(command)
    return parser


def _formatter(kind: type[argparse.HelpFormatter]) -> partial[argparse.HelpFormatter]:
    """Tell a formatter the width; it would import `shutil` to ask, a fifth of the time of help."""
    return partial(kind, width=_columns() - 2)


def _columns() -> int:
    """Return the width of the terminal, as `shutil.get_terminal_size` does."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size().columns or 80
    except OSError:
        return 80


def _new(new: argparse.ArgumentParser) -> None:
    new.description = "Ask what is wanted, create the project and say what to do next."
    new.epilog = _EXAMPLES
    new.formatter_class = _formatter(argparse.RawDescriptionHelpFormatter)
    new.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="a new or empty folder, or an empty clone (default: the project's name)",
    )
    new.add_argument("--defaults", action="store_true", help="ask nothing: defaults for the rest")
    _add_data(new, "an answer (repeatable, several choices with commas), or the path of your data")
    new.add_argument("--answers", metavar="FILE", help="answers from a TOML or YAML file")
    new.add_argument("--from", dest="address", metavar="ADDRESS", help="answers of `ddpgen web`")
    new.add_argument("--site", default="", help="a cluster's answers (ddpgen site list)")
    new.add_argument("--dry-run", action="store_true", help="list the files, write nothing")


def _update(update: argparse.ArgumentParser) -> None:
    update.description = (
        "Merge what is new in the template into a project. What you edited stays; "
        "conflicts are marked in the files and listed at the end, and the exit code is 1 then."
    )
    _add_path(update)
    update.add_argument("--to", metavar="VERSION", help="an earlier version than this ddpgen's")
    _add_data(update, "change an answer as well")
    _add_dry_run(update)


def _set(change: argparse.ArgumentParser) -> None:
    change.description = "Change answers of a project, with the same merge as `ddpgen update`."
    change.add_argument("assignments", nargs="+", metavar="KEY=VALUE", help="an answer to change")
    _add_project(change)
    _add_dry_run(change)


def _diff(diff: argparse.ArgumentParser) -> None:
    diff.description = "Show what differs from the project as ddpgen made it."
    _add_path(diff)


def _launch(launch: argparse.ArgumentParser) -> None:
    from ddpgen.launching import flags

    launch.description = (
        "Add a set of launch files to a project, or give one that is there other "
        "answers. A set is a folder launch_NAME; `ddpgen update` and `ddpgen set` carry it along."
    )
    launch.epilog = flags.EXAMPLES
    launch.formatter_class = _formatter(argparse.RawDescriptionHelpFormatter)
    launch.add_argument("cluster", nargs="?", metavar="CLUSTER", help="local, ssh, slurm, ...")
    launch.add_argument("--site", default="", help="a site's answers (ddpgen site list)")
    launch.add_argument("--name", default="", help="of the set (default: the site's or cluster's)")
    flags.add_answers(launch)
    _add_data(launch, "any other answer")
    _add_project(launch)
    form = launch.add_mutually_exclusive_group()
    form.add_argument("--list", action="store_true", help="the clusters, and the project's sets")
    form.add_argument("--stdout", action="store_true", help="print the file that starts the job")
    _add_dry_run(form)


def _options(options: argparse.ArgumentParser) -> None:
    form = options.add_mutually_exclusive_group()
    for name, purpose in (("json", "for programs"), ("markdown", "for the documentation")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=purpose)
    options.set_defaults(form="text")


def _site(site: argparse.ArgumentParser) -> None:
    from ddpgen.launching import flags

    flags.add_actions(site)


def _web(web: argparse.ArgumentParser) -> None:
    from ddpgen.web import flags

    flags.add(web)


def _check(check: argparse.ArgumentParser) -> None:
    from ddpgen.checking import flags

    flags.add(check)


def _completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument("shell", choices=["bash", "zsh"])
    completion.set_defaults(parser=_parser)


def _add_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", default=".", metavar="PATH", help="the project (default: here)"
    )


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", default=".", metavar="PATH", dest="path", help="the project (default: here)"
    )


def _add_data(parser: argparse.ArgumentParser, purpose: str) -> None:
    parser.add_argument("--data", action="append", default=[], metavar="KEY=VALUE", help=purpose)


def _add_dry_run(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument("--dry-run", action="store_true", help="show all, change nothing")


# Each command with its purpose, and the function that adds its arguments. commands.py runs it.
_COMMANDS = {
    "new": ("create a project", _new),
    "update": ("bring a project to this version of ddpgen", _update),
    "set": ("change answers of a project", _set),
    "diff": ("show what you changed in a project", _diff),
    "launch": ("add launch files for another cluster or size to a project", _launch),
    "web": ("choose in the browser, and see what each choice changes", _web),
    "options": ("print every option, its choices and default", _options),
    "site": ("what a cluster's users need not type: list, show, new, check", _site),
    "check": ("look for pitfalls of DDP in any training code", _check),
    "completion": ("print a script for your shell", _completion),
}
