"""What an update would bring: a project of one version beside the same project of a later one."""

from dataclasses import asdict
from functools import lru_cache

from ddpgen.asking import answer_files, answers
from ddpgen.asking.known import LAUNCH_FOLDER, MAIN_FOLDER
from ddpgen.asking.question import Answers
from ddpgen.errors import DdpgenError
from ddpgen.origin import order, recorded_in
from ddpgen.renaming.migrations import between
from ddpgen.rendering.texts import File
from ddpgen.updating.carry import carry_over
from ddpgen.web import difference, reading
from ddpgen.web.reading import Given, Reply
from ddpgen.web.releases import Release, Releases


class Updates:
    """Answers the calls of the page about updates."""

    def __init__(self) -> None:
        self._releases = Releases()
        self._both = lru_cache(maxsize=8)(self._rendered)

    def versions(self) -> list[str]:
        """Return all versions, oldest first."""
        return [tag[1:] for tag in self._releases.by_tag]

    def recorded(self, text: str) -> Reply:
        """Return the version and the answers in a project's file of answers, or why not."""
        try:
            return self._recorded(text)
        except DdpgenError as error:
            return {"problem": str(error)}

    def _recorded(self, text: str) -> Reply:
        tag = recorded_in(text)
        if tag not in self._releases.by_tag:
            raise DdpgenError("is not the .copier-answers.yml of a project of a version known here")
        asked = self._releases.by_tag[tag].template.questionnaire.questions
        entries = answer_files.parse_yaml(text)
        given = {
            name: answers.as_text(answers.from_native(asked[name], value))
            for name, value in entries.items()
            if name in asked and not asked[name].computed
        }
        if given.pop(LAUNCH_FOLDER, MAIN_FOLDER) != MAIN_FOLDER:
            raise DdpgenError("holds the answers of a set of launch files, not of a project")
        return {"since": tag[1:], "given": given}

    def update(self, given: Given, since: str, to: str) -> Reply:
        """Return the files of both versions, compared, and what the changelog says.

        Or why the later version refuses an answer.

        Raises:
            KeyError: there is no such version.
        """
        try:
            before, after, moved, changed = self._both(tuple(given.items()), since, to)
        except DdpgenError as error:
            return {"problem": str(error)}
        compared = difference.compare(before, after)
        was = {new: old for old, new in moved.items() if new in before}
        return {
            "files": [
                {
                    "path": path,
                    "was": was.get(path, ""),
                    "lines": len(after[path].text.splitlines()) if path in after else 0,
                    **asdict(how),
                }
                for path, how in compared.items()
            ],
            "answers": changed,
            "notes": [
                {"version": release.tag[1:], "text": release.notes}
                for release in self._releases.by_tag.values()
                if order(f"v{since}") < order(release.tag) <= order(f"v{to}")
            ],
        }

    def updated(self, given: Given, since: str, to: str, path: str) -> Reply:
        """Return the lines of a file, each with its mark."""
        before, after, _, _ = self._both(tuple(given.items()), since, to)
        texts = [files[path].text if path in files else "" for files in (before, after)]
        return {"path": path, "rows": difference.rows(*texts)}

    def _rendered(
        self, given: tuple[tuple[str, str], ...], since: str, to: str
    ) -> tuple[dict[str, File], dict[str, File], dict[str, str], list[str]]:
        before, after = (self._releases.by_tag[f"v{version}"] for version in (since, to))
        recorded = _complete(before, dict(given))
        questionnaires = (before.template.questionnaire, after.template.questionnaire)
        carried = recorded if since == to else carry_over(*questionnaires, recorded, {})
        moved = _moves(before.tag, after.tag)
        old = before.template.project(recorded)
        new = after.template.project(carried)
        old = {moved.get(path, path): file for path, file in old.items()}
        return old, new, moved, _changed(recorded, carried)


def _complete(release: Release, given: Given) -> Answers:
    """Return all answers of a project, those that do not fit left out."""
    questionnaire = release.template.questionnaire
    return answers.resolve(questionnaire, reading.read(questionnaire, given).answers)


def _moves(since: str, to: str) -> dict[str, str]:
    """Return where the files of a version are in a later one."""
    found: dict[str, str] = {}
    for migration in between(since, to):
        found = {old: migration.moves.get(new, new) for old, new in found.items()}
        found = {**migration.moves, **found}
    return found


def _changed(before: Answers, after: Answers) -> list[str]:
    """Return a line for each answer that differs, or that only one of the versions has."""
    lines = [f"{name}: no longer asked" for name in before if name not in after]
    for name, value in after.items():
        new = answers.as_text(value) or "empty"
        if name not in before:
            lines.append(f"{name}: new, {new}")
        elif value != before[name]:
            lines.append(f"{name}: {answers.as_text(before[name]) or 'empty'}, now {new}")
    return lines
