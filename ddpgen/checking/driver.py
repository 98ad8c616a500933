"""Finds the files, applies the rules, and takes suppressions into account."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ddpgen.checking import rules, suppressions
from ddpgen.checking.reading import grouping
from ddpgen.checking.reading.callers import tried_out
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.scripts import Script, is_script
from ddpgen.checking.registry import Hit, Rule
from ddpgen.errors import DdpgenError, nearest, show

_SKIPPED = re.compile("__pycache__|build|dist|node_modules|site-packages|venv|tests?|\\..*")
_TEST = re.compile(r"(test_.*|.*_test|conftest)\.py")


class Finding(NamedTuple):
    """A mistake at its place; what findings are sorted by comes first."""

    path: Path
    line: int
    column: int
    id: str
    why: str
    remedy: str


@dataclass
class Report:
    """What was found, and what the reader should know about how."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0


def check(paths: Sequence[Path], select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Report:
    """Check files and folders.

    Args:
        paths: Python files, launch files, or folders with some of them below.
        select: the ids to look for; all of them if there are none.
        ignore: ids to leave out.

    Raises:
        DdpgenError: a path or an id that does not exist, a named file that cannot be read.
    """
    chosen = _chosen(select, ignore)
    report = Report()
    modules, scripts = _read(paths, report)
    grouping.group(modules)
    _notes(modules, report)
    ids = {rule.id for rule in chosen}
    for module in modules:
        found = list(_in_module(module, chosen))
        # Finding the comments takes as long as reading the file.
        comments = module.comments if "ddpgen:" in module.text else {}
        silencing = suppressions.find(comments, module.text.splitlines())
        report.findings += _silence(module.path, found, list(silencing), ids)
    for script in scripts:
        found = [f for rule in chosen if rule.reads == "script" for f in _apply(rule, script)]
        comments = {number: line for number, line in enumerate(script.lines, 1) if "#" in line}
        silencing = suppressions.find(comments, script.lines)
        report.findings += _silence(script.path, found, list(silencing), ids)
    report.findings = sorted(set(report.findings))
    return report


def _chosen(select: Iterable[str], ignore: Iterable[str]) -> list[Rule]:
    known = sorted({rule.id for rule in rules.RULES})
    wanted, unwanted = set(select), set(ignore)
    for name in sorted(wanted | unwanted):
        if name not in known:
            remedy = nearest(name, known) or "`ddpgen check --list` lists all"
            raise DdpgenError("there is no such rule", option=show(name), remedy=remedy)
    return [r for r in rules.RULES if r.id in (wanted or known) and r.id not in unwanted]


def _read(paths: Sequence[Path], report: Report) -> tuple[list[Module], list[Script]]:
    modules, scripts = [], []
    files = [(file, file == path) for path in paths for file in _files(path)]
    names = frozenset(path.name for path, _ in files)
    for path, named in dict(files).items():
        try:
            text = path.read_text(encoding="utf-8-sig")
            if path.suffix == ".py":
                modules.append(Module(path, text))
            else:
                scripts.append(Script(path, text, names))
        except (OSError, ValueError, SyntaxError, RecursionError) as error:
            reason = _reason(error)
            if named:
                raise DdpgenError(reason, option=show(path)) from error
            report.notes.append(f"{show(path)} was not checked: it {reason}")
    report.files = len(modules) + len(scripts)
    return modules, scripts


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, SyntaxError):
        return f"is not valid Python (line {error.lineno})"
    return "is nested too deeply" if isinstance(error, RecursionError) else "is not UTF-8 text"


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise DdpgenError("there is no such file or folder", option=show(path))
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not _SKIPPED.fullmatch(name))
        for name in sorted(names):
            file = Path(folder, name)
            if (file.suffix == ".py" and not _TEST.fullmatch(name)) or (
                file.suffix != ".py" and is_script(file) and not name.startswith(".")
            ):
                yield file


def _notes(modules: Sequence[Module], report: Report) -> None:
    frameworks = {m.program.framework for m in modules if m.program.distributed} - {""}
    for name in sorted(frameworks):
        report.notes.append(f"programs that import {name} were not checked: it distributes them")
    if modules and not any(module.program.distributed for module in modules):
        report.notes.append("no Python file uses torch.distributed or DistributedDataParallel")


def _in_module(module: Module, chosen: Sequence[Rule]) -> Iterator[Finding]:
    if module.program.distributed and not module.program.framework:
        for rule in chosen:
            if rule.reads == "module":
                yield from _apply(rule, module)


def _apply(rule: Rule, file: Module | Script) -> Iterator[Finding]:
    for hit in rule.find(file):
        place = hit[0] if isinstance(hit, tuple) else hit
        if not isinstance(file, Module) or isinstance(place, int) or not tried_out(file, place):
            yield _finding(rule, file.path, hit)


def _finding(rule: Rule, path: Path, hit: Hit) -> Finding:
    place, detail = hit if isinstance(hit, tuple) else (hit, "")
    line = place if isinstance(place, int) else getattr(place, "lineno", 1)
    column = 1 if isinstance(place, int) else getattr(place, "col_offset", 0) + 1
    why = f"{detail}: {rule.why}" if detail else rule.why
    return Finding(path, line, column, rule.id, why, rule.remedy)


def _silence(
    path: Path, found: list[Finding], comments: list[suppressions.Suppression], run: set[str]
) -> Iterator[Finding]:
    """The findings that no comment silences, and what is wrong with the comments."""
    for finding in found:
        silencing = [c for c in comments if c.target == finding.line and finding.id in c.ids]
        for comment in silencing:
            comment.used.add(finding.id)
        if not silencing:
            yield finding
    known = {rule.id for rule in rules.RULES}
    for comment in comments:
        unused = [n for n in comment.ids if n not in comment.used and (n in run or n not in known)]
        if not comment.reason:
            yield _mistaken(path, comment, suppressions.NO_REASON)
        if unused or not comment.ids:
            yield _mistaken(path, comment, suppressions.NO_EFFECT)


def _mistaken(path: Path, comment: suppressions.Suppression, name: str) -> Finding:
    return Finding(path, comment.line, 1, name, *suppressions.ABOUT[name])
