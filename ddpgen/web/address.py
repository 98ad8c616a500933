"""Answers in the address of a page: `#v=0.5.0&model=resnet&nodes=2`.

Browsers send no server what stands behind `#`. An address names the answers that differ from the
defaults of its version, each written as `--data` takes it.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote

from ddpgen.asking import answers
from ddpgen.asking.question import Answers, Value
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import DdpgenError, show

VERSION = "v"
MOST = 20_000  # characters; a longer address is none of ours


def write(version: str, needed: Mapping[str, Value]) -> str:
    """Return the fragment for the answers that have to be given, without `#`."""
    entries = {VERSION: version} | {name: answers.as_text(value) for name, value in needed.items()}
    return "&".join(f"{name}={quote(text, safe='+,:/@')}" for name, text in entries.items())


def read(text: str) -> dict[str, str]:
    """Return the entries of an address, or of its fragment alone, as texts by name.

    Raises:
        DdpgenError: the text is too long, or an entry has no `=`.
    """
    if len(text) > MOST:
        raise DdpgenError(f"an address of ddpgen has at most {MOST:,} characters")
    found: dict[str, str] = {}
    for entry in filter(None, text.rpartition("#")[2].split("&")):
        name, separator, value = entry.partition("=")
        if not separator:
            raise DdpgenError(f"{show(entry)}: an address holds answers as key=value")
        found[unquote(name)] = unquote(value)
    return found


def fitting(questionnaire: Questionnaire, entries: Mapping[str, str]) -> tuple[Answers, list[str]]:
    """Return the answers that fit the questions, and a sentence for each that does not.

    Args:
        questionnaire: the questions of today.
        entries: what an address holds.
    """
    found: Answers = {}
    words = []
    for name, text in entries.items():
        if name == VERSION:
            continue
        try:
            found |= answers.from_flags(questionnaire, [f"{name}={text}"], "")
        except DdpgenError as error:
            words.append(f"{str(error).splitlines()[0]}; left out")
    while refused := next(_refused(questionnaire, found), None):
        name, reason, taken = refused
        words.append(f"{name}={show(found.pop(name))}: {reason}; {taken}")
    return found, words


def _refused(questionnaire: Questionnaire, given: Answers) -> Iterator[tuple[str, str, str]]:
    """Yield the answers that cannot be, each with the reason and what is taken in its place."""
    seen: Answers = {}
    for state in questionnaire.evaluate(given):
        default = questionnaire.default(state.question, seen)
        seen[state.question.name] = default if state.problem else state.value
        if state.problem and state.given:
            taken = f"taken in its place: {show(default)}" if state.active else "left out"
            yield state.question.name, state.problem, taken
