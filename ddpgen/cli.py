"""The command line: flags and words, no logic.

Heavy modules are imported by the command that needs them, so that help answers at once.
"""

import argparse
import io
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from ddpgen import __version__
from ddpgen.errors import FAILURE, USER_MISTAKE, DdpgenError, show

if TYPE_CHECKING:
    from ddpgen.questions import Answers, Questionnaire, Value

INTERRUPTED = 130
FINDINGS = 1

_EXAMPLES = """\
examples:
  ddpgen new my-project                        ask, then create my-project/
  ddpgen new my-project --defaults             ask nothing
  ddpgen new vision --defaults --data model=resnet --data clusters=local,slurm
  ddpgen new vision --answers answers.toml     answers from a file; ask the rest
  ddpgen new my-project --defaults --dry-run   list the files, write nothing
  ddpgen options                               every option with its choices
  ddpgen check path/to/code                    pitfalls of DDP in code that you have

--data goes before --answers, both go before what would be asked or assumed.
Without a terminal nothing is asked: give --defaults or all answers.
Exit codes: 0 done, 1 a failure of the machine, 2 a mistake in the command,
130 cancelled. Unless it is 0, nothing was changed.

In a project:
  ddpgen update                                what a newer ddpgen does better
  ddpgen set amp=fp16                          another answer
  ddpgen diff                                  what you changed
  ddpgen launch slurm --nodes 8                launch files for another cluster or size
"""

_LAUNCH_EXAMPLES = """\
examples:
  ddpgen launch slurm --nodes 8 --gpus-per-node 4      adds launch_slurm/
  ddpgen launch slurm --nodes 64 --name big            adds launch_big/ beside it
  ddpgen launch --site perlmutter --account m1234      adds launch_perlmutter/
  ddpgen launch slurm --nodes 16                       changes launch_slurm/; your edits stay
  ddpgen launch kubernetes --nodes 2 --stdout          prints the manifest, writes nothing
  ddpgen launch --list                                 what there is

Nothing outside the set's own folder changes, but for its file of answers.
Any other option of where it runs: --data KEY=VALUE (ddpgen options lists them).
"""
# Flags of `ddpgen launch` that are answers.
_SIZES = {
    "nodes": "number of nodes",
    "gpus_per_node": "GPUs (processes) per node",
    "time_limit": "time limit of one job, HH:MM:SS",
    "partition": "partition or queue",
    "account": "account or project that is charged",
    "network": "network between the nodes",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failure, 2 user's mistake, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        code: int = arguments.command(arguments)
        sys.stdout.flush()
    except DdpgenError as error:
        print(f"ddpgen: {error}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, EOFError):
        print("\nddpgen: cancelled, nothing was changed", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has left; nothing more can be said on stdout.
        sys.stderr.close()
        return FAILURE
    return code


def _leave(number: int, _frame: FrameType | None) -> None:
    """End through the cleaning up that an exception sets off."""
    raise SystemExit(128 + number)


class _Version(argparse.Action):
    """Says the versions; the template's requirements are read when somebody asks."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, nargs=0)

    def __call__(self, *_: object) -> NoReturn:
        from ddpgen import template_source

        needs = template_source.requirements()
        print(f"ddpgen {__version__} (template {template_source.TAG}; projects need {needs})")
        raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ddpgen",
        allow_abbrev=False,
        description="Generate a complete PyTorch DistributedDataParallel project.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="show the versions and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    new = commands.add_parser(
        "new",
        help="create a project",
        allow_abbrev=False,
        description="Ask what is wanted, create the project and say what to do next.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    new.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="a new or empty folder (default: the project's name)",
    )
    new.add_argument("--defaults", action="store_true", help="ask nothing: defaults for the rest")
    new.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one answer; repeatable; several choices with commas",
    )
    new.add_argument(
        "--answers", type=Path, metavar="FILE", help="answers from a TOML or YAML file"
    )
    new.add_argument("--site", default="", help="a cluster's answers (ddpgen site list)")
    new.add_argument("--dry-run", action="store_true", help="list the files, write nothing")
    new.set_defaults(command=_new)
    _add_update(commands)
    _add_launch(commands)
    options = commands.add_parser("options", help="print every option, its choices and default")
    form = options.add_mutually_exclusive_group()
    for name, purpose in (("json", "for programs"), ("markdown", "for the documentation")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=purpose)
    options.set_defaults(command=_options, form="text")
    _add_site(commands)
    _add_check(commands)
    completion = commands.add_parser("completion", help="print a script for your shell")
    completion.add_argument("shell", choices=["bash", "zsh"])
    completion.set_defaults(command=lambda arguments: _completion(arguments, parser))
    parser.set_defaults(command=lambda _: _help(parser))
    return parser


def _add_update(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    update = commands.add_parser(
        "update",
        help="bring a project to this version of ddpgen",
        allow_abbrev=False,
        description="Merge what is new in the template into a project. What you edited stays; "
        "conflicts are marked in the files and listed at the end, and the exit code is 1 then.",
    )
    change = commands.add_parser(
        "set",
        help="change answers of a project",
        allow_abbrev=False,
        description="Change answers of a project, with the same merge as `ddpgen update`.",
    )
    diff = commands.add_parser(
        "diff",
        help="show what you changed in a project",
        allow_abbrev=False,
        description="Show what differs from the project as ddpgen made it.",
    )
    for parser in (update, diff):
        parser.add_argument(
            "path", nargs="?", default=".", metavar="PATH", help="the project (default: here)"
        )
    update.add_argument("--to", metavar="VERSION", help="an earlier version than this ddpgen's")
    update.add_argument(
        "--data", action="append", default=[], metavar="KEY=VALUE", help="change an answer as well"
    )
    change.add_argument("assignments", nargs="+", metavar="KEY=VALUE", help="an answer to change")
    _add_project(change)
    for parser in (update, change):
        parser.add_argument("--dry-run", action="store_true", help="show all, change nothing")
    update.set_defaults(command=_update)
    change.set_defaults(command=_set)
    diff.set_defaults(command=_diff)


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", default=".", metavar="PATH", dest="path", help="the project (default: here)"
    )


def _add_launch(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    launch = commands.add_parser(
        "launch",
        help="add launch files for another cluster or size to a project",
        allow_abbrev=False,
        description="Add a set of launch files to a project, or give one that is there other "
        "answers. A set is a folder launch_NAME; `ddpgen update` and `ddpgen set` carry it along.",
        epilog=_LAUNCH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    launch.add_argument("cluster", nargs="?", metavar="CLUSTER", help="local, ssh, slurm, ...")
    launch.add_argument("--site", default="", help="a site's answers (ddpgen site list)")
    launch.add_argument("--name", default="", help="of the set (default: the site's or cluster's)")
    for name, purpose in _SIZES.items():
        flag = f"--{name.replace('_', '-')}"
        launch.add_argument(flag, dest=name, metavar=name.split("_")[0].upper(), help=purpose)
    launch.add_argument(
        "--data", action="append", default=[], metavar="KEY=VALUE", help="any other answer"
    )
    _add_project(launch)
    form = launch.add_mutually_exclusive_group()
    form.add_argument("--list", action="store_true", help="the clusters, and the project's sets")
    form.add_argument("--stdout", action="store_true", help="print the file that starts the job")
    form.add_argument("--dry-run", action="store_true", help="show all, change nothing")
    launch.set_defaults(command=_launch)


def _add_site(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    site = commands.add_parser(
        "site",
        help="what a cluster's users need not type: list, show, new, check",
        allow_abbrev=False,
        description="Sites hold the answers that belong to a cluster, for --site of `ddpgen new` "
        "and `ddpgen launch`. Yours are TOML files in your config folder; some are built in.",
    )
    actions = site.add_subparsers(title="actions", metavar="ACTION", required=True)
    for action, purpose in (
        ("list", "all sites"),
        ("show", "the file of one, with its sources"),
        ("new", "make one from what this machine tells about itself"),
        ("check", "say what does not fit the machine this runs on; exit code 1 if something"),
    ):
        parser = actions.add_parser(action, help=purpose, allow_abbrev=False)
        if action != "list":
            parser.add_argument("name", metavar="NAME", help="the site")
        parser.set_defaults(command=_site, action=action)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    check = commands.add_parser(
        "check",
        help="look for pitfalls of DDP in any training code",
        allow_abbrev=False,
        description="Read Python and launch files, run nothing, and report pitfalls of DDP.",
        epilog="Exit codes: 0 nothing found, 1 findings, 2 a mistake in the command.",
    )
    check.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a file or a folder")
    check.add_argument("--format", choices=["text", "json", "sarif"], default="text")
    check.add_argument("--select", default="", metavar="IDS", help="only these, as in G3,K1")
    check.add_argument("--ignore", default="", metavar="IDS", help="all but these")
    about = check.add_mutually_exclusive_group()
    about.add_argument("--list", action="store_true", help="what is looked for")
    about.add_argument("--explain", metavar="ID", help="the page of one rule, with examples")
    check.set_defaults(command=_check)


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return USER_MISTAKE


def _completion(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddpgen import completion

    print(completion.script(arguments.shell, parser), end="")
    return 0


def _options(arguments: argparse.Namespace) -> int:
    from ddpgen import options

    print(options.describe(arguments.form), end="")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from ddpgen.check import driver, pages, reporter

    if arguments.list or arguments.explain is not None:
        print(pages.listing() if arguments.list else pages.explain(arguments.explain), end="")
        return 0
    if not arguments.paths:
        raise DdpgenError("say what to check: ddpgen check PATH")
    select, ignore = (
        [name.strip() for name in ids.split(",") if name.strip()]
        for ids in (arguments.select, arguments.ignore)
    )
    report = driver.check(arguments.paths, select, ignore)
    print(reporter.FORMATS[arguments.format](report), end="")
    return FINDINGS if report.findings else 0


def _new(arguments: argparse.Namespace) -> int:
    from ddpgen import answers, detect, questions, render, sites

    questionnaire = questions.load()
    given = answers.from_file(questionnaire, arguments.answers) if arguments.answers else {}
    given |= answers.from_flags(questionnaire, arguments.data)
    if arguments.site:
        given = sites.load(arguments.site, questionnaire).fill(questionnaire, given)
    path = None if arguments.path is None else _path(arguments.path)
    if given.get("launch_folder", "launch") != "launch":
        raise DdpgenError("is for a project that is there: ddpgen launch", option="launch_folder")
    named = detect.from_path(questionnaire, path) if path else {}
    if path:
        render.check_destination(path)
    if not arguments.defaults and not answers.complete(questionnaire, given):
        given = _interview(questionnaire, given, named)
    complete = answers.resolve(questionnaire, named | given)
    path = path or Path(str(complete["project_name"]))
    repeat = _repeat(path, answers.differing(questionnaire, complete, named))
    if arguments.dry_run:
        render.check_destination(path)
        print("\n".join(render.preview(complete)))
        return 0
    try:
        print(f"Creating {show(path)} ...", file=sys.stderr)
        files = render.files_of(render.create(complete, path))
    except DdpgenError as error:
        error.remedy = f"{error.remedy}\n  the same answers again: {repeat}".strip()
        raise
    _next_steps(path, files)
    print(f"\nThe same answers again:\n  {repeat}")
    return 0


def _update(arguments: argparse.Namespace) -> int:
    from ddpgen import update

    path = _path(arguments.path)
    return update.update(path, arguments.to, arguments.data, dry_run=arguments.dry_run)


def _set(arguments: argparse.Namespace) -> int:
    from ddpgen import update

    path = _path(arguments.path)
    return update.change(path, arguments.assignments, dry_run=arguments.dry_run)


def _diff(arguments: argparse.Namespace) -> int:
    from ddpgen import update

    return update.diff(_path(arguments.path))


def _launch(arguments: argparse.Namespace) -> int:
    from ddpgen import launch

    path = _path(arguments.path)
    if arguments.list:
        return launch.listing(path)
    if not arguments.cluster and not arguments.site:
        raise DdpgenError("say for which cluster: ddpgen launch CLUSTER (--list shows them)")
    given = ((name, getattr(arguments, name)) for name in _SIZES)
    data = [f"{name}={value}" for name, value in given if value is not None]
    data += arguments.data
    request = launch.Request(arguments.cluster or "", arguments.site, arguments.name, data)
    if arguments.stdout:
        return launch.show_file(path, request)
    return launch.add(path, request, dry_run=arguments.dry_run)


def _site(arguments: argparse.Namespace) -> int:
    from ddpgen import questions, sites

    if arguments.action == "new":
        print(f"Wrote {sites.create(arguments.name)}: look it through.")
        return 0
    questionnaire = questions.load()
    chosen = [arguments.name] if arguments.action != "list" else [*sites.names()]
    for site in [sites.load(name, questionnaire) for name in chosen]:
        if arguments.action == "list":
            print(f"{site.name:<16}{site.cluster:<8}{site.title}")
        elif arguments.action == "show":
            print(site.path.read_text(encoding="utf-8"), end="")
        elif found := sites.problems(site, questionnaire):
            print("\n".join(found))
            return FINDINGS
        else:
            print(f"Nothing here contradicts {site.name}.")
    return 0


def _interview(questionnaire: "Questionnaire", given: "Answers", named: "Answers") -> "Answers":
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise DdpgenError(
            "there is no terminal to ask in",
            remedy="add --defaults; say what should differ with --data KEY=VALUE or --answers FILE",
        )
    from ddpgen import detect, prompts

    detector = detect.Detector()

    def suggest(name: str, context: "Mapping[str, Value]") -> "Value | None":
        return named.get(name, detector.suggest(name, context))

    return prompts.Interview(questionnaire, given, suggest).run()


def _repeat(path: Path, needed: "Answers") -> str:
    """Return the command that gives the same project."""
    data = [part for name, value in needed.items() for part in ("--data", f"{name}={show(value)}")]
    where = str(path) if not str(path).startswith("-") else f"./{path}"
    return shlex.join(["ddpgen", "new", where, "--defaults", *data])


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise DdpgenError("is not a path", option="PATH", value=text)
    return Path(text)


def _next_steps(path: Path, files: Sequence[str]) -> None:
    """Say what was created and what to do with it."""
    launch = [name for name in files if name.startswith("launch/")]
    lines = [
        f"Created {show(path)}: {len(files)} files.",
        "",
        "Next:",
        f"  cd {shlex.quote(str(path))}",
        "  python -m venv .venv && . .venv/bin/activate",
        "  python -m pip install -e '.[dev]'",
        "  python train.py      train on this machine",
        "  python -m pytest     check it, on two processes",
    ]
    if launch:
        lines.append(f"  launch/              {', '.join(name[7:] for name in launch)}")
    print("\n".join(lines))
