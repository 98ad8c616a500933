"""What the page asks, and nothing else: the same for Python here and for Python in a browser.

Answers come as texts by name, as `--data` takes them. The page keeps all that its user typed; what
does not apply, or is refused, has no effect until other answers change that.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from ddpgen.asking import answers, questions
from ddpgen.asking.known import PROJECT_NAME
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.rendering.texts import File, Template
from ddpgen.web import address, archive, catalogue, difference, reading
from ddpgen.web.reading import Given, Reading, Reply
from ddpgen.web.updates import Updates

# What a page may call, by name; the second ones are answered by `Updates`.
PROJECT = ("project", "file", "cost", "read", "archive")
UPDATES = ("versions", "recorded", "update", "updated")
CALLS = PROJECT + UPDATES


def start() -> "Interface":
    """Return the interface to the template of this ddpgen."""
    root, tag = template_source.template_root(), template_source.TAG
    return Interface(Template(root, tag, questions.load()))


class Interface:
    """Answers the page's calls.

    Attributes:
        tag: the version of the template.
    """

    def __init__(self, template: Template) -> None:
        self.tag = template.tag
        self._template = template
        self._updates = Updates()
        self._questionnaire = template.questionnaire
        self._render = lru_cache(maxsize=64)(self._rendered)

    def prepared(self) -> Iterator[str]:
        """Do in small steps what makes later answers quick."""
        return self._template.compiled()

    def call(self, name: str, arguments: str) -> str | bytes:
        """Answer a call: its arguments by name and its reply are JSON, or the reply is a zip.

        Raises:
            ValueError, TypeError, KeyError: there is no such call, or not with such arguments.
            DdpgenError: a zip is refused.
        """
        if name not in CALLS:
            raise ValueError(name)
        owner = self if name in PROJECT else self._updates
        reply = getattr(owner, name)(**_checked(json.loads(arguments)))
        return reply if isinstance(reply, bytes) else json.dumps(reply)

    def project(self, given: Given, base: Given | None = None) -> Reply:
        """Return all that the page shows of a set of answers, but for the text of a file.

        Args:
            given: the answers.
            base: the answers that the project is compared with.
        """
        read = self._reading(given)
        project = self._files(read)
        before = project if base is None else self._files(self._reading(base))
        compared = difference.compare(before, project)
        needed = answers.differing(self._questionnaire, read.answers, {})
        values = reading.values(self._questionnaire, read)
        name = str(values[PROJECT_NAME])
        others = {key: value for key, value in needed.items() if key != PROJECT_NAME}
        return {
            "groups": list(reading.groups(self._questionnaire, read, given)),
            "problems": read.problems,
            "numbers": [
                *reading.numbers(self._questionnaire, values),
                {"word": "files", "value": len(project), "how": ""},
                {"word": "lines", "value": sum(map(_lines, project.values())), "how": ""},
            ],
            "files": [
                {"path": path, "lines": _lines(project.get(path)), **asdict(how)}
                for path, how in compared.items()
            ],
            "name": name,
            "command": answers.command(name, others),
            "address": address.write(self.tag[1:], needed),
        }

    def file(self, given: Given, path: str, base: Given | None = None) -> Reply:
        """Return the lines of a file, each with its mark, and the pitfalls that lines prevent."""
        project = self._files(self._reading(given))
        before = project if base is None else self._files(self._reading(base))
        old, new = (files[path].text if path in files else "" for files in (before, project))
        texts = {name: file.text for name, file in project.items()}
        why = catalogue.why(path, new, texts)
        return {"path": path, "rows": difference.rows(old, new), "why": why}

    def cost(self, given: Given, other: Given) -> Reply:
        """Return what other answers would change, in files and lines, or why they cannot be."""
        read = self._reading(other)
        for problem in read.problems.values():
            return {"problem": problem}
        return _sum(difference.compare(self._files(self._reading(given)), self._files(read)))

    def read(self, text: str) -> Reply:
        """Return the answers in an address, and a sentence for each that does not fit."""
        try:
            entries = address.read(text)
        except DdpgenError as error:
            return {"given": {}, "words": [str(error)]}
        found, words = address.fitting(self._questionnaire, entries)
        return {"given": {key: answers.as_text(v) for key, v in found.items()}, "words": words}

    def archive(self, given: Given) -> bytes:
        """Return the project as a zip.

        Raises:
            DdpgenError: an answer is refused.
        """
        read = self._reading(given)
        for name, problem in read.problems.items():
            raise DdpgenError(problem, option=name)
        values = reading.values(self._questionnaire, read)
        return archive.pack(str(values[PROJECT_NAME]), self._files(read))

    def _reading(self, given: Given) -> Reading:
        return reading.read(self._questionnaire, given)

    def _files(self, read: Reading) -> dict[str, File]:
        return self._render(
            tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in read.answers.items())
        )

    def _rendered(self, frozen: tuple[tuple[str, Any], ...]) -> dict[str, File]:
        given = {key: list(v) if isinstance(v, tuple) else v for key, v in frozen}
        return self._template.project(given)


def _checked(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call, which are texts or texts by name.

    Raises:
        TypeError: they are not.
    """
    if not isinstance(arguments, dict):
        raise TypeError(arguments)
    for value in arguments.values():
        texts = [*value.values()] if isinstance(value, dict) else [value or ""]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(value)
    return arguments


def _lines(file: File | None) -> int:
    return len(file.text.splitlines()) if file else 0


def _sum(compared: Mapping[str, difference.Difference]) -> dict[str, int]:
    changed = [how for how in compared.values() if how.kind != difference.SAME]
    return {
        "files": len(changed),
        "added": sum(how.added for how in changed),
        "removed": sum(how.removed for how in changed),
    }
