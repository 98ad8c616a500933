"""What a team wants of the checker: by flags, and by `[tool.ddpgen.check]` in pyproject.toml."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpgen.checking import rules, suppressions
from ddpgen.checking.discovery import Excluded, matches
from ddpgen.checking.findings import Finding
from ddpgen.checking.registry import SEVERITIES, STYLE, Rule
from ddpgen.errors import DdpgenError, nearest, show

_KEYS = ("select", "ignore", "exclude", "severity", "per-file-ignores")


@dataclass(frozen=True)
class Settings:
    """What to look for, and where.

    Attributes:
        select: the ids or themes (their letters) to look for; all if there are none.
        ignore: ids or themes to leave out.
        severity: the least bad that is reported.
        exclude: patterns of paths that are not read.
        per_file_ignores: ids or themes to leave out in files, by patterns of paths.
        root: the folder that the patterns begin at.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    severity: str = STYLE
    exclude: Sequence[str] = ()
    per_file_ignores: Mapping[str, Sequence[str]] = field(default_factory=dict)
    root: Path = Path()

    @property
    def excluded(self) -> Excluded:
        """The patterns of what is not read, with the folder that they begin at."""
        return Excluded(self.root, self.exclude)

    def rules(self) -> list[Rule]:
        """The rules to apply."""
        wanted, unwanted = expand(self.select), expand(self.ignore)
        return [
            rule
            for rule in rules.RULES
            if (rule.id in wanted or not self.select) and rule.id not in unwanted
        ]

    def reports(self, finding: Finding) -> bool:
        """Whether a finding is bad enough, and no setting for its file leaves it out."""
        if SEVERITIES.index(finding.severity) > SEVERITIES.index(self.severity):
            return False
        place = finding.path.resolve() if self.per_file_ignores else finding.path
        if not self.per_file_ignores or not place.is_relative_to(self.root):
            return True
        name = place.relative_to(self.root).as_posix()
        return not any(
            finding.id in expand(ids)
            for pattern, ids in self.per_file_ignores.items()
            if matches(name, pattern)
        )


def expand(names: Iterable[str]) -> set[str]:
    """The ids that are meant: an id, whatever its case, or the letter of a theme.

    Raises:
        DdpgenError: there is no such rule.
    """
    known = sorted({rule.id for rule in rules.RULES} | suppressions.ABOUT.keys())
    found = set()
    for name in names:
        meant = {i for i in known if name.upper() in (i, i[0])}
        if not meant:
            remedy = nearest(name, known) or "`ddpgen check --list` lists all"
            raise DdpgenError("there is no such rule", option=show(name), remedy=remedy)
        found |= meant
    return found


def read(paths: Sequence[Path]) -> Settings:
    """The settings of the nearest pyproject.toml with such a table, above all paths or beside them.

    Raises:
        DdpgenError: the table holds something else than settings.
    """
    places = [Path(os.path.realpath(path)) for path in paths]  # of links in a circle, too
    common = Path(os.path.commonpath(places)) if places else Path.cwd()
    for folder in (common, *common.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (table := _table(file)) is not None:
            return _checked(table, file)
    return Settings()


def _table(file: Path) -> Any:
    import tomllib

    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not a file of this program; others complain of it
        return None
    tool = content.get("tool")
    ours = tool.get("ddpgen") if isinstance(tool, dict) else None
    return ours.get("check") if isinstance(ours, dict) else None


def _checked(table: Any, file: Path) -> Settings:
    where = f"{show(file)}: tool.ddpgen.check"
    if not isinstance(table, dict):
        raise DdpgenError("is not a table", option=where)
    for key in table:
        if key not in _KEYS:
            remedy = nearest(key, _KEYS) or f"there are {', '.join(_KEYS)}"
            raise DdpgenError("is no setting", option=f"{where}.{key}", remedy=remedy)
    ignores = table.get("per-file-ignores", {})
    if not isinstance(ignores, dict):
        raise DdpgenError("is not a table", option=f"{where}.per-file-ignores")
    severity = table.get("severity", STYLE)
    if severity not in SEVERITIES:
        raise DdpgenError("is no severity", option=f"{where}.severity", allowed=SEVERITIES)
    found = Settings(
        select=_texts(table.get("select", []), f"{where}.select"),
        ignore=_texts(table.get("ignore", []), f"{where}.ignore"),
        severity=severity,
        exclude=_texts(table.get("exclude", []), f"{where}.exclude"),
        per_file_ignores={
            pattern: _texts(ids, f"{where}.per-file-ignores.{pattern}")
            for pattern, ids in ignores.items()
        },
        root=file.parent,
    )
    for names in (found.select, found.ignore, *found.per_file_ignores.values()):
        expand(names)
    return found


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DdpgenError("is not a list of texts", option=where)
    return value
