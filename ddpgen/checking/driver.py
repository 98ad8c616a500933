"""Reads the files, applies the rules, and takes suppressions into account."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpgen.checking import discovery, rules, suppressions
from ddpgen.checking.discovery import Selection
from ddpgen.checking.findings import Finding, Report
from ddpgen.checking.progress import shown
from ddpgen.checking.reading import beside, grouping, notebooks, usual_names
from ddpgen.checking.reading.callers import tried_out
from ddpgen.checking.reading.programs import Module
from ddpgen.checking.reading.projects import ProjectFile, project_files
from ddpgen.checking.reading.scripts import Script, is_script
from ddpgen.checking.registry import STYLE, Hit, Rule
from ddpgen.checking.settings import Settings
from ddpgen.errors import NO_PROGRAM, DdpgenError, show

File = Module | Script | ProjectFile


@dataclass
class Found:
    """What was found in one file, and the comments in it that may silence some of that."""

    file: File
    comments: Mapping[int, str]
    findings: list[Finding] = field(default_factory=list)


def check(paths: Sequence[Path], settings: Settings | None = None) -> Report:
    """Check files and folders.

    Args:
        paths: Python files, notebooks, launch files, or folders with some of them below.
        settings: what to look for; everything by default.

    Raises:
        DdpgenError: a path or an id that does not exist, a named file that cannot be read.
    """
    settings = settings or Settings()
    chosen = settings.rules()
    report = Report()
    selection = discovery.select(paths, settings.excluded)
    modules, scripts = _read(selection, report)
    modules = _grouped(modules, selection)
    _notes(modules, selection, report)
    found: dict[Path, Found] = {}
    for module in shown(modules, "checked"):
        _collect(module, _in_module(module, chosen), found)
    for script in scripts:
        _collect(script, _by_rules(script, chosen, "script"), found)
    texts = {module.path.resolve(): module for module in modules}
    for root in selection.projects if any(rule.reads == "project" for rule in chosen) else ():
        for file in project_files(root, _project_texts(root, paths, texts)):
            _collect(file, _by_rules(file, chosen, "project"), found)
    ids = {rule.id for rule in chosen}
    for path, each in found.items():
        silencing = suppressions.find(each.comments, each.file.lines)
        left = (_placed(each.file, f) for f in _silence(path, each, list(silencing), ids))
        report.findings += [finding for finding in left if settings.reports(finding)]
    report.findings = sorted(set(report.findings))
    return report


def _grouped(modules: list[Module], selection: Selection) -> list[Module]:
    """The modules with usual names, and the program of each."""
    named = [m for m in modules if selection.files[m.file]]
    together = [*modules, *beside.needed(named, modules)]
    grouping.group(together)
    if (usual := usual_names.given(together)) != together:
        grouping.group(usual)
    return usual[: len(modules)]


def _read(selection: Selection, report: Report) -> tuple[list[Module], list[Script]]:
    modules: list[Module] = []
    scripts: list[Script] = []
    names = {path.name for path in selection.files}
    for script_folder in {path.parent for path, named in selection.files.items() if named}:
        names |= {path.name for path in script_folder.iterdir()}
    for path, named in shown(selection.files.items(), "read"):
        try:
            text = path.read_text(encoding="utf-8-sig")
            if path.suffix == ".py":
                modules.append(Module(path, text))
            elif path.suffix == notebooks.SUFFIX:
                modules += (cells := notebooks.read(path, text))
                report.notes += [
                    f"{show(path)}: a cell was not checked: it is not valid Python ({where})"
                    for where in cells[0].unread
                ]
            else:
                scripts.append(Script(path, text, frozenset(names)))
                if not is_script(path):
                    report.notes.append(f"{show(path)} was read as a launch file")
        except (OSError, *NO_PROGRAM) as error:
            reason = _reason(error)
            if named:
                raise DdpgenError(reason, option=show(path)) from error
            report.notes.append(f"{show(path)} was not checked: it {reason}")
            report.unreadable += 1
    report.files = len({module.file for module in modules}) + len(scripts)
    return modules, scripts


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, SyntaxError):
        place = f"line {error.lineno}" if error.lineno else error.msg  # of the whole file
        return f"is not valid Python ({place})"
    if isinstance(error, notebooks.NotebookError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    deep = isinstance(error, RecursionError | MemoryError)
    # Zeros are an error of another kind before Python 3.11.4.
    return "is nested too deeply" if deep else f"is not valid Python ({error})"


def _project_texts(
    root: Path, paths: Sequence[Path], known: Mapping[Path, Module]
) -> Iterator[tuple[Path, str]]:
    """The Python files of a project, tests too, as they were named, and their texts."""
    for path in discovery.python_files(root, paths):
        if module := known.get(path):
            yield module.path, "\n".join(module.lines)
            continue
        try:
            yield discovery.as_named(path, paths), path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError):
            continue


def _notes(modules: Sequence[Module], selection: Selection, report: Report) -> None:
    report.notes += selection.notes()
    frameworks = {m.program.framework for m in modules if m.program.distributed} - {""}
    for name in sorted(frameworks):
        report.notes.append(f"programs that use {name} were not checked: it distributes them")
    if modules and not any(module.program.distributed for module in modules):
        report.notes.append("no Python file uses torch.distributed or DistributedDataParallel")


def _in_module(module: Module, chosen: Sequence[Rule]) -> Iterator[Finding]:
    if module.program.distributed and not module.program.framework:
        yield from _by_rules(module, chosen, "module")


def _by_rules(file: File, chosen: Iterable[Rule], reads: str) -> Iterator[Finding]:
    for rule in chosen:
        for hit in rule.find(file) if rule.reads == reads else ():
            place = hit[0] if isinstance(hit, tuple) else hit
            node = None if isinstance(place, int) else place
            if not isinstance(file, Module) or node is None or not tried_out(file, node):
                yield _finding(rule, file, hit)


def _finding(rule: Rule, file: File, hit: Hit) -> Finding:
    place, detail = hit if isinstance(hit, tuple) else (hit, "")
    why = f"{detail}: {rule.why}" if detail else rule.why
    first, begin, last, end = _region(place, file.lines)
    text = _line(file.lines, first).strip()
    about = (rule.id, why, rule.remedy, rule.severity)
    return Finding(file.path, first, begin, *about, last, end, text)


def _region(place: ast.AST | int, lines: list[str]) -> tuple[int, int, int, int]:
    """Line and column of the first character and of the place behind the last one."""
    first = place if isinstance(place, int) else getattr(place, "lineno", 1)
    text = _line(lines, first)
    whole = (first, 1, first, len(text) + 1)
    if isinstance(place, int) or not hasattr(place, "lineno"):
        return whole
    begin = _characters(text, getattr(place, "col_offset", 0)) + 1
    if hasattr(place, "body"):  # the head of a statement says enough
        return first, begin, first, len(text) + 1
    last = getattr(place, "end_lineno", None) or first
    end = _characters(_line(lines, last), getattr(place, "end_col_offset", None) or 0) + 1
    return first, begin, last, end


def _placed(file: File, finding: Finding) -> Finding:
    """A finding where its reader sees it: in a notebook by cell, at the line of the file."""
    if not isinstance(file, notebooks.Notebook):
        return finding
    line, column = file.in_file(finding.line, finding.column)
    end_line, end_column = file.in_file(finding.end_line, finding.end_column)
    return finding._replace(
        path=file.file,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        why=f"{file.cell(finding.line)}: {finding.why}",
    )


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _characters(text: str, offset: int) -> int:
    """How many characters there are in so many bytes, which `ast` counts."""
    return len(text.encode()[:offset].decode(errors="ignore"))


def _collect(file: File, findings: Iterable[Finding], found: dict[Path, Found]) -> None:
    if file.path not in found:
        # Finding the comments takes as long as reading the file.
        comments = file.comments if "ddpgen:" in file.text else {}
        found[file.path] = Found(file, comments)
    found[file.path].findings += findings


def _silence(
    path: Path, found: Found, comments: list[suppressions.Suppression], run: set[str]
) -> Iterator[Finding]:
    """The findings that no comment silences, and what is wrong with the comments."""
    for finding in found.findings:
        silencing = [c for c in comments if c.target == finding.line and finding.id in c.ids]
        for comment in silencing:
            comment.used.add(finding.id)
        if not silencing:
            yield finding
    known = {rule.id for rule in rules.RULES}
    for comment in comments:
        unused = [n for n in comment.ids if n not in comment.used and (n in run or n not in known)]
        wrong = [suppressions.NO_REASON] if not comment.reason else []
        wrong += [suppressions.NO_EFFECT] if unused or not comment.ids else []
        line, text = comment.line, _line(found.file.lines, comment.line)
        for name in wrong:
            about = (name, *suppressions.ABOUT[name], STYLE)
            yield Finding(path, line, 1, *about, line, len(text) + 1, text.strip())
