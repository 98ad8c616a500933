"""Projects as texts, put together without copier: as fast as a page needs them, also in a browser.

copier writes a project in a third of a second, and remains what `ddpgen new` and updates use. Here
the same template is rendered by jinja2 alone. A test compares both, byte for byte.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from pathspec import PathSpec

from ddpgen.asking.question import Answers, Value
from ddpgen.asking.questions import Questionnaire

FOLDER = "project/"  # what becomes the project; the rest of a template is included there


@dataclass(frozen=True)
class File:
    """A file of a project.

    Attributes:
        text: its content.
        executable: whether it may be run.
    """

    text: str
    executable: bool


class Template:
    """One version of the template.

    Attributes:
        tag: the version, as answers files name it.
        questionnaire: its questions.
        patterns: what says which files a project has not, once rendered.
    """

    def __init__(self, root: Path, tag: str, questionnaire: Questionnaire) -> None:
        self.tag = tag
        self.questionnaire = questionnaire
        self._root = root
        self._settings = questionnaire.settings
        self.patterns: list[str] = self._settings["_exclude"]
        self._name = cache(self.environment.from_string)

    @cached_property
    def environment(self) -> jinja2.Environment:
        """The environment of all files, with copier's settings, filters and way to find parts."""
        return SandboxedEnvironment(
            loader=jinja2.FileSystemLoader(self._root),
            auto_reload=False,
            cache_size=-1,
            extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
            **{**self._settings["_envops"], "undefined": jinja2.StrictUndefined},
        )

    @cached_property
    def sources(self) -> dict[str, str]:
        """The names of all templates of files, by the files' names before these are rendered."""
        names = self.environment.list_templates(filter_func=lambda n: n.startswith(FOLDER))
        suffix = self._settings["_templates_suffix"]
        return {name.removeprefix(FOLDER).removesuffix(suffix): name for name in names}

    def compiled(self) -> Iterator[str]:
        """Compile one template after the other: the first project is as quick as later ones then.

        Yields:
            the name of each.
        """
        for name in self.environment.list_templates():
            if name.startswith("parts/") or name.endswith(self._settings["_templates_suffix"]):
                self.environment.get_template(name)
                yield name

    def context(self, states: Mapping[str, Value], answers: Mapping[str, Value]) -> dict[str, Any]:
        """Return what templates see.

        Args:
            states: the values of all questions.
            answers: those that the project records.
        """
        file = self._name(self._settings["_answers_file"]).render(states)
        conf = {"answers_file": file, "data": {}}
        return {
            **states,
            "ddpgen_tag": self.tag,
            "_copier_answers": dict(answers),
            "_copier_conf": conf,
        }

    def paths(self, context: Mapping[str, Any]) -> dict[str, str]:
        """Return the files that a project has, and the name of the template of each."""
        left_out = self.left_out(context)
        named = {self._path(name, context): source for name, source in self.sources.items()}
        return {path: named[path] for path in sorted(named) if not left_out(path)}

    def left_out(self, context: Mapping[str, Any]) -> Callable[[str], bool]:
        """Return what says whether a project has no such file."""
        render = self.questionnaire.render
        return matcher(tuple(render(pattern, context) for pattern in self.patterns))

    def text(self, source: str, context: Mapping[str, Any]) -> str:
        """Return the content of the file that a template gives."""
        if source.endswith(self._settings["_templates_suffix"]):
            return self.environment.get_template(source).render(context)
        return _read(self._root / source)

    def project(self, answers: Mapping[str, Value]) -> dict[str, File]:
        """Return the files of a project by path, in order.

        Args:
            answers: valid ones, at least those that differ from the defaults.
        """
        seen: Answers = {}
        recorded: Answers = {}
        for state in self.questionnaire.evaluate(answers):
            seen[state.question.name] = state.value
            if state.active:
                recorded[state.question.name] = state.value
        context = self.context(seen, recorded)
        return {
            path: File(self.text(source, context), _executable(self._root / source))
            for path, source in self.paths(context).items()
        }

    def _path(self, name: str, context: Mapping[str, Any]) -> str:
        return self._name(name).render(context) if "{{" in name else name


@cache
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether a path is left out, as copier reads the list; "" says nothing."""
    return cache(PathSpec.from_lines("gitignore", filter(None, patterns)).match_file)


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)
