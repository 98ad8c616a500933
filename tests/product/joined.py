"""The modules of many projects side by side, so that one run of mypy types all of them.

Projects have modules of the same names. Here each module has a name of its own, which follows from
its text and from all that it imports, and its imports name those: what projects have in common
stands there once. What a module imports stands there with it, and is judged where it was first met.
"""

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Joined:
    """Name -> text of every different module; `add` brings those of one project."""

    texts: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)  # name -> path, and the first project
    seen: set[tuple[str, str]] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)  # names; of others mypy reads the signatures

    def add(self, files: Mapping[str, str], where: str, whole: bool = False) -> None:
        """The modules of a project (path -> text), or those that no other had and their imports."""
        project = _Project(files)
        for module, path in project.paths.items():
            if whole or (path, files[path]) not in self.seen:
                self.seen.add((path, files[path]))
                self.judged.add(project.name(module))
        for module, name in project.names.items():
            self.texts[name] = project.renamed[module]
            self.places.setdefault(name, f"{project.paths[module]} of {where}")

    def write(self, folder: Path) -> None:
        """One file for each module."""
        folder.mkdir(parents=True)
        for name, text in self.texts.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")

    def types(self, folder: Path, settings: Path) -> list[str]:
        """What mypy says of them, by the paths that they have in their projects.

        Args:
            folder: does not exist yet.
            settings: a project's pyproject.toml.
        """
        self.write(folder)
        chosen = folder / "pyproject.toml"
        chosen.write_text(settings.read_text(encoding="utf-8") + self._silence(), encoding="utf-8")
        command = [sys.executable, "-m", "mypy", f"--config-file={chosen}", "--no-incremental"]
        done = subprocess.run(
            [*command, "."], cwd=folder, capture_output=True, text=True, check=False
        )
        lines = (done.stdout + done.stderr).splitlines() if done.returncode else []
        return [self._in_its_project(line) for line in lines]

    def _silence(self) -> str:
        """Settings by which mypy passes over the bodies of functions in what is not judged."""
        others = sorted(self.texts.keys() - self.judged)
        section = "\n[[tool.mypy.overrides]]\nignore_errors = true\nmodule = "
        return f"{section}{json.dumps(others)}\n" if others else ""

    def _in_its_project(self, line: str) -> str:
        name, dot, rest = line.partition(".py:")
        return f"{self.places[name]}:{rest}" if dot and name in self.places else line


class _Project:
    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.paths = {_module(path): path for path in files if path.endswith(".py")}
        self.renamed: dict[str, str] = {}  # module -> its text with other imports
        self.names: dict[str, str] = {}

    def name(self, module: str) -> str:
        """The module's name beside those of other projects."""
        if module not in self.names:
            path = self.paths[module]
            text = self._with_new_imports(self.files[path])
            self.renamed[module] = text
            digest = hashlib.sha256(f"{path}\n{text}".encode()).hexdigest()[:12]
            self.names[module] = f"{module.replace('.', '_')}_{digest}"
        return self.names[module]

    def _with_new_imports(self, text: str) -> str:
        """The same lines; imports of the project's modules name them as they stand here."""
        lines = text.splitlines(keepends=True)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom) and (new := self._import(node)):
                end = node.end_lineno or node.lineno
                indent = lines[node.lineno - 1][: node.col_offset]
                lines[node.lineno - 1 : end] = [f"{indent}{new}\n"] + ["\n"] * (end - node.lineno)
        return "".join(lines)

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        """What imports the same from here; "" for modules of other people."""
        if isinstance(node, ast.Import):
            found = [alias for alias in node.names if alias.name in self.paths]
            assert len(found) in (0, len(node.names)), "one import, two owners"
            return "; ".join(f"import {self.name(a.name)} as {a.asname or a.name}" for a in found)
        package = str(node.module)
        parts = []
        for alias in node.names:
            as_name = alias.asname or alias.name
            if (module := f"{package}.{alias.name}") in self.paths:
                parts.append(f"import {self.name(module)} as {as_name}")
            elif package in self.paths:
                parts.append(f"from {self.name(package)} import {alias.name} as {as_name}")
        return "; ".join(parts)


def _module(path: str) -> str:
    """How a project's programs and tests import a file."""
    name = path.removesuffix(".py").removesuffix("/__init__").removeprefix("tests/")
    return name.replace("/", ".")
