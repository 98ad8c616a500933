"""Sites: the answers that all users of a cluster share, in a TOML file for each cluster.

ddpgen brings some; the user's own are in their config folder and go before those. A site answers
questions of copier.yml and nothing else, so it is checked by the same rules.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ddpgen.asking import answer_files, answers, detect, questions
from ddpgen.asking.known import CLUSTERS
from ddpgen.asking.question import Answers
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import DdpgenError, nearest, show

BUILT_IN = Path(__file__).with_name("built_in")
_KEYS: dict[str, type] = {
    "title": str,
    "cluster": str,
    "needs": list,
    "answers": dict,
    "sources": dict,
}


@dataclass(frozen=True)
class Site:
    """A site.

    Attributes:
        name: what the file is called, without .toml.
        path: the file.
        title: what it is, in a line.
        cluster: one of the choices of `clusters`.
        needs: questions that only the user can answer.
        answers: the answers of the site.
    """

    name: str
    path: Path
    title: str
    cluster: str
    needs: tuple[str, ...]
    answers: Answers

    def fill(self, questionnaire: Questionnaire, given: Answers) -> Answers:
        """Add the site's answers to the user's, which go before them.

        What does not apply to the user's, such as a network between nodes to one node, is left out.

        Raises:
            DdpgenError: something is missing that the site cannot know.
        """
        missing = [name for name in self.needs if not given.get(name)]
        if missing:
            flags = " ".join(f"--data {name}=..." for name in missing)
            reason = f"jobs there need {' and '.join(missing)}"
            raise DdpgenError(reason, option="--site", value=self.name, remedy=f"add {flags}")
        together: Answers = {CLUSTERS: [self.cluster], **self.answers, **given}
        unfit = {s.question.name for s in questionnaire.evaluate(together) if not s.active}
        return {k: v for k, v in together.items() if k in given or k not in unfit}


def folder() -> Path:
    """Return the folder of the user's own sites."""
    return platformdirs.user_config_path("ddpgen") / "sites"


def names() -> dict[str, Path]:
    """Return the files of all sites by name."""
    return {
        path.stem: path for place in (BUILT_IN, folder()) for path in sorted(place.glob("*.toml"))
    }


def load(name: str, questionnaire: Questionnaire) -> Site:
    """Read a site.

    Args:
        name: its name.
        questionnaire: the questions that it may answer.

    Raises:
        DdpgenError: there is none of this name, or its file is wrong.
    """
    known = names()
    if name not in known:
        remedy = nearest(name, [*known]) or f"`ddpgen site new {show(name)}` makes one"
        raise DdpgenError(
            "is no site", option="--site", value=name, allowed=[*known], remedy=remedy
        )
    path = known[name]
    entries = answer_files.read(path)
    for key, value in entries.items():
        if not isinstance(value, _KEYS.get(key, ())):
            known_keys = ", ".join(_KEYS)
            where = f"{show(path)}: {show(key)}"
            raise DdpgenError(f"is not what a site has ({known_keys})", option=where)
    cluster = str(entries.get("cluster", ""))
    clusters = questionnaire.questions[CLUSTERS].values
    if cluster not in clusters:
        where = f"{show(path)}: cluster"
        raise DdpgenError("is not a choice", option=where, value=cluster, allowed=clusters)
    needs = entries.get("needs")
    return Site(
        name,
        path,
        str(entries.get("title", name)),
        cluster,
        tuple(map(str, needs)) if isinstance(needs, list) else (),
        answers.from_entries(questionnaire, _joined(entries.get("answers"), questionnaire), path),
    )


def _joined(table: object, questionnaire: Questionnaire) -> Mapping[str, object]:
    """Return a site's answers, with the text instead of a list where the question wants a text."""
    given = dict(table) if isinstance(table, dict) else {}
    for question in questionnaire.questions.values():
        value = given.get(question.name)
        if question.meaning.separator and isinstance(value, list):
            given[question.name] = question.meaning.separator.join(map(str, value))
    return given


def create(name: str) -> Path:
    """Write a site of the user's own, with what this machine tells about itself.

    Raises:
        DdpgenError: the name is no name of a file, or taken.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise DdpgenError("use letters, digits, - and _ only", option="NAME", value=name)
    path = folder() / f"{name}.toml"
    by_fact = questions.load().by_fact
    lines = [
        "# `ddpgen site check` compares this with the machine it runs on; `ddpgen options` lists",
        "# what else can be answered here.",
        f"title = {json.dumps(name)}",
        'cluster = "slurm"',
        "# What everybody has to say for themselves, such as their account.",
        "needs = []",
        "",
        "[answers]",
        *(f"{by_fact[fact]} = {json.dumps(value)}" for fact, value in detect.facts().items()),
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError as error:
        raise DdpgenError("is there already", option=show(path)) from error
    except OSError as error:
        raise DdpgenError(str(error.strerror), option=show(path)) from error
    return path
