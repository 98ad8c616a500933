"""Faults put into ddpgen itself, one at a time, each with the tests that have to notice."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A mistake as an edit would bring it in.

    Attributes:
        path: the file below ddpgen/.
        right: what stands there once.
        wrong: what is put in its place.
        tests: the file below tests/ that notices, which may end with a word for `-k`.
    """

    path: str
    right: str
    wrong: str
    tests: str


FAULTS = {
    "a value in quotes counts as a number": Fault(
        "asking/answers.py",
        "isinstance(value, int) and not isinstance(value, bool)",
        "isinstance(value, int)",
        "generator/test_answers.py",
    ),
    "the second of two answers wins": Fault(
        "asking/answers.py",
        "if question.name in found:",
        "if question.name in ():",
        "generator/test_answers.py",
    ),
    "an answer that does not apply is taken": Fault(
        "asking/questions.py",
        'problem = self._why_inactive(question, context) if answered else ""',
        'problem = ""',
        "generator/test_answers.py",
    ),
    "a refused choice is taken": Fault(
        "asking/questions.py",
        "                if reason:\n                    return reason\n",
        "                if not reason:\n                    return reason\n",
        "generator/test_questions.py",
    ),
    "lines count as GPUs": Fault(
        "asking/detect.py",
        'sum(line.startswith("GPU ") for line',
        "sum(bool(line) for line",
        "generator/test_detect.py",
    ),
    "the first partition is the default": Fault(
        "asking/detect.py",
        'default = name if label.endswith("*") else default',
        "default = default or name",
        "generator/test_detect.py",
    ),
    "a message brings control characters to the terminal": Fault(
        "errors.py",
        'return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")',
        "return text",
        "generator/test_answers.py",
    ),
    "a half-made project stays": Fault(
        "rendering/render.py",
        "            shutil.rmtree(work, ignore_errors=True)\n",
        "            pass\n",
        "generator/test_render.py",
    ),
    "a folder that git began is no empty one": Fault(
        "rendering/render.py",
        "any(entry.name != GIT for entry",
        "any(entry for entry",
        "generator/test_render.py",
    ),
    "a dry run makes the project": Fault(
        "commands.py",
        "    if arguments.dry_run:\n",
        "    if not arguments:\n",
        "generator/test_cli.py",
    ),
    "a site's answers win over the user's": Fault(
        "launching/sites.py",
        "**self.answers, **given}",
        "**given, **self.answers}",
        "generator/test_sites.py",
    ),
    "the user's own site does not replace ours": Fault(
        "launching/sites.py",
        "for place in (BUILT_IN, folder())",
        "for place in (folder(), BUILT_IN)",
        "generator/test_sites.py",
    ),
    "files that git does not know are overwritten": Fault(
        "updating/merge.py",
        "    _leave_alone(project, outcome)\n    return outcome\n",
        "    return outcome\n",
        "update/test_messages.py git_does_not_know",
    ),
    "a dry run updates": Fault(
        "updating/changing.py",
        "    elif dry_run:\n",
        "    elif False:\n",
        "update/test_messages.py dry_run",
    ),
    "a comment silences nothing": Fault(
        "checking/suppressions.py",
        "if name.strip()]\n            yield Suppression(line, target, ids,",
        "if name.strip()]\n            yield Suppression(line, target, ids and [],",
        "check/test_check.py",
    ),
    "a comment above a line silences nothing": Fault(
        "checking/suppressions.py",
        "while alone and target",
        "while not alone and target",
        "check/test_check.py",
    ),
    "one known finding hides all that are like it": Fault(
        "checking/baseline.py",
        "            known[key] -= 1\n",
        "",
        "check/test_use.py",
    ),
    "nothing found, nothing read: well": Fault(
        "checking/command.py",
        "return NOTHING if report.files else USER_MISTAKE",
        "return NOTHING",
        "check/test_use.py",
    ),
    "a rule takes what is no number for one": Fault(
        "checking/rules/samplers.py",
        "if type(constant(rank)) is int and",
        "if type(constant(rank)) is not int and",
        "check/test_pages.py",
    ),
    "imports that moved stand in disorder": Fault(
        "renaming/import_blocks.py",
        "unique[key] for key in sorted(unique)",
        "unique[key] for key in sorted(unique, reverse=True)",
        "update/test_migrations.py rewritten",
    ),
}
