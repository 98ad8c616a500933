"""The commands: each takes the parsed arguments, and returns the exit code.

A command imports heavy modules itself, so that the others start at once.
"""

import os
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ddpgen import __version__
from ddpgen.asking.found import path_of
from ddpgen.asking.known import LAUNCH_FOLDER, MAIN_FOLDER, PROJECT_NAME
from ddpgen.errors import DdpgenError, show

if TYPE_CHECKING:
    from ddpgen.asking.question import Answers, Value
    from ddpgen.asking.questions import Questionnaire

FINDINGS = 1
# Where the page of `ddpgen web` is that people of this machine use, such as a static one.
PAGE = "DDPGEN_PAGE"


def run(arguments: Namespace) -> int:
    """Run the command that the arguments name and return its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        Path.cwd()
    except FileNotFoundError as error:
        reason = "the folder in which the command was started is gone: go to another folder"
        raise DdpgenError(reason) from error
    # One table, in cli.py, names the commands: each has its function here.
    command: Callable[[Namespace], int] = globals()[f"run_{arguments.command}"]
    return command(arguments)


def _leave(number: int, _frame: FrameType | None) -> None:
    """End through the cleaning up that an exception sets off."""
    raise SystemExit(128 + number)


def run_completion(arguments: Namespace) -> int:
    """Print a script for a shell."""
    from ddpgen.asking import completion

    print(completion.script(arguments.shell, arguments.parser()), end="")
    return 0


def run_options(arguments: Namespace) -> int:
    """Print the reference of all options."""
    from ddpgen.asking import options

    print(options.describe(arguments.form), end="")
    return 0


def run_web(arguments: Namespace) -> int:
    """Serve the page on which projects are made, until Ctrl-C."""
    from ddpgen.web import server

    return server.serve(arguments.port, browser=not arguments.no_browser)


def run_check(arguments: Namespace) -> int:
    """Report the pitfalls in training code."""
    from ddpgen.checking import command

    return command.run(arguments)


def run_new(arguments: Namespace) -> int:
    """Create a project, asking what is not answered."""
    from ddpgen.asking import answers, detect, look, questions
    from ddpgen.launching import sites
    from ddpgen.rendering import render
    from ddpgen.web import address

    questionnaire = questions.load()
    given = _written(questionnaire, arguments)
    paths = [text for text in arguments.data if "=" not in text or os.path.lexists(text)]
    given |= answers.from_flags(questionnaire, (t for t in arguments.data if t not in paths))
    found = look.look_at(paths)
    proposed = questionnaire.fitting(found.kind)
    for line in [*questionnaire.misfit(found.kind, given), *found.words]:
        print(line, file=sys.stderr)
    if arguments.site:
        given = sites.load(arguments.site, questionnaire).fill(questionnaire, given)
    path = None if arguments.path is None else _path(arguments.path)
    if given.get(LAUNCH_FOLDER, MAIN_FOLDER) != MAIN_FOLDER:
        raise DdpgenError("is for a project that is there: ddpgen launch", option=LAUNCH_FOLDER)
    named = detect.from_path(questionnaire, path) if path else {}
    if path:
        render.check_destination(path)
    asked = not arguments.defaults and arguments.address is None
    if asked and not answers.complete(questionnaire, given):
        given = _interview(questionnaire, given, named | proposed)
    given = proposed | given
    complete = answers.resolve(questionnaire, named | given)
    path = path or Path(str(complete[PROJECT_NAME]))
    needed = answers.differing(questionnaire, complete, named)
    repeat = answers.command(str(path), needed)
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
    fits = questionnaire.fits(found.kind, complete)
    _next_steps(path, files, found.arguments_with(complete.values()) if fits else [])
    print(f"\nThe same answers again:\n  {repeat}")
    if page := os.environ.get(PAGE):
        fragment = address.write(__version__, answers.differing(questionnaire, complete, {}))
        print(f"  {page.partition('#')[0]}#{fragment}")
    return 0


def run_update(arguments: Namespace) -> int:
    """Bring a project to another version."""
    from ddpgen.updating import update

    path = _path(arguments.path)
    return update.update(path, arguments.to, arguments.data, dry_run=arguments.dry_run)


def run_set(arguments: Namespace) -> int:
    """Change answers of a project."""
    from ddpgen.updating import update

    path = _path(arguments.path)
    return update.change(path, arguments.assignments, dry_run=arguments.dry_run)


def run_diff(arguments: Namespace) -> int:
    """Show what a user changed in a project."""
    from ddpgen.updating import update

    return update.diff(_path(arguments.path))


def run_launch(arguments: Namespace) -> int:
    """Add a set of launch files to a project, change one, or show what there is."""
    from ddpgen.launching import launch

    path = _path(arguments.path)
    if arguments.list:
        return launch.listing(path)
    if not arguments.cluster and not arguments.site:
        raise DdpgenError("say for which cluster: ddpgen launch CLUSTER (--list shows them)")
    given = ((name, getattr(arguments, name)) for name in arguments.answered_by_flags)
    data = [f"{name}={value}" for name, value in given if value is not None]
    data += arguments.data
    request = launch.Request(arguments.cluster or "", arguments.site, arguments.name, data)
    if arguments.stdout:
        return launch.show_file(path, request)
    return launch.add(path, request, dry_run=arguments.dry_run)


def run_site(arguments: Namespace) -> int:
    """List, show, make or check sites."""
    from ddpgen.asking import questions
    from ddpgen.launching import site_check, sites

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
        elif found := site_check.problems(site, questionnaire):
            print("\n".join(found))
            return FINDINGS
        else:
            print(f"Nothing here contradicts {site.name}.")
    return 0


def _written(questionnaire: "Questionnaire", arguments: Namespace) -> "Answers":
    """Return the answers in the address and in the file that the arguments name."""
    from ddpgen.asking import answers
    from ddpgen.web import address

    given: Answers = {}
    if arguments.address is not None:
        given, words = address.fitting(questionnaire, address.read(arguments.address))
        for line in words:
            print(f"ddpgen: {line}", file=sys.stderr)
    if arguments.answers is not None:
        given |= answers.from_file(questionnaire, Path(arguments.answers))
    return given


def _interview(questionnaire: "Questionnaire", given: "Answers", named: "Answers") -> "Answers":
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise DdpgenError(
            "there is no terminal to ask in",
            remedy="add --defaults; say what should differ with --data KEY=VALUE or --answers FILE",
        )
    from ddpgen.asking import detect, prompts

    detector = detect.Detector()

    def suggest(name: str, context: "Mapping[str, Value]") -> "Value | None":
        return named.get(name, detector.suggest(name, context))

    return prompts.Interview(questionnaire, given, suggest).run()


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise DdpgenError("is not a path", option="PATH", value=text)
    return path_of(text)


def _next_steps(path: Path, files: Sequence[str], arguments: Sequence[str]) -> None:
    """Say what was created and what to do with it; `arguments` are those of the user's data."""
    launch = [name for name in files if name.startswith(f"{MAIN_FOLDER}/")]
    lines = [
        f"Created {show(path)}: {len(files)} files.",
        "",
        "Next:",
        f"  cd {shlex.quote(str(path))}",
        "  python -m venv .venv && . .venv/bin/activate",
        "  python -m pip install -e '.[dev]'",
        "  python train.py          train on this machine",
        "  python -m pytest         test the project, on one to four processes",
    ]
    if arguments:
        lines += ["  on your data:", f"  {shlex.join(['python', 'train.py', *arguments])}"]
    if "tools/memory/__main__.py" in files:
        lines.append("  python -m tools.memory   what each rank's device has to hold, before a run")
    if launch:
        names = ", ".join(name.removeprefix(f"{MAIN_FOLDER}/") for name in launch)
        lines.append(f"  {MAIN_FOLDER + '/':<25}{names}")
    print("\n".join(lines))
