"""Carries a project's recorded answers over to other answers or another version's questions."""

from contextlib import suppress

from ddpgen.asking import answers
from ddpgen.asking.known import LAUNCH_FOLDER, MAIN_FOLDER
from ddpgen.asking.question import LAUNCH, Answers
from ddpgen.asking.questions import Questionnaire
from ddpgen.errors import DdpgenError


def carry_over(
    before: Questionnaire, after: Questionnaire, recorded: Answers, changes: Answers
) -> Answers:
    """Answer the questions of another version, or the same ones with changes.

    Recorded answers that no longer apply are left out. One that was a default is replaced by the
    default of a new project where the changes refuse it: the question is not new to the project.
    So is one that was a default only because the answers that now change refused the new one.

    Raises:
        DdpgenError: a change is refused, or a recorded answer under the changes.
    """
    chosen = answers.differing(before, recorded, {})
    # The last question is answered in every update, which tells new questions that a project is
    # older than they are. The oldest versions did not ask it.
    earlier = {LAUNCH_FOLDER: MAIN_FOLDER} | recorded
    kept = recorded.keys() & after.questions.keys() - changes.keys()
    try:
        values = {name: after.today(name, recorded[name]) for name in kept}
        given = {n: answers.from_native(after.questions[n], value) for n, value in values.items()}
        replaced: Answers = {}
        for name in recorded.keys() & changes.keys() & after.questions.keys():
            with suppress(DdpgenError):  # of a value that a change by hand brought
                replaced[name] = answers.from_native(after.questions[name], recorded[name])
        renewed: Answers = {}
        for name in _forced(after, given | replaced, changes, kept - chosen.keys()):
            del given[name]
            renewed |= _default_of_new(name, after, given | renewed | changes, recorded)
        while True:
            outdated = [
                state.question.name
                for state in after.evaluate(given | renewed | changes, earlier)
                if state.problem and state.question.name in given
                if not (state.active and state.question.name in chosen)
            ]
            if not outdated:
                return answers.resolve(after, given | renewed | changes, earlier)
            del given[outdated[0]]
            renewed |= _default_of_new(outdated[0], after, given | renewed | changes, recorded)
    except DdpgenError as error:
        if error.option in kept:
            another = f"give another answer in the same command: {error.option}=..."
            error.remedy = error.remedy or another
        raise


def _forced(after: Questionnaire, old: Answers, changes: Answers, names: set[str]) -> list[str]:
    """Return those of the old defaults whose new default the old answers refused."""
    found = []
    for name in [name for name in after.questions if name in names] if changes else ():
        others = {key: value for key, value in (old | changes).items() if key != name}
        new = _default_of_new(name, after, others, old)
        if new and new[name] != old[name]:
            then, now = (
                any(s.problem and s.question.name == name for s in after.evaluate(given | new, old))
                for given in (old, others)
            )
            found += [name] if then and not now else []
    return found


def _default_of_new(
    name: str, questionnaire: Questionnaire, given: Answers, recorded: Answers
) -> Answers:
    """Return what a new project has as the answer to a question; nothing where none applies."""
    earlier = {key: value for key, value in recorded.items() if key != LAUNCH_FOLDER}
    states = questionnaire.evaluate(given, earlier)
    state = next(state for state in states if state.question.name == name)
    return {name: state.value} if state.active else {}


def about_training(questionnaire: Questionnaire, given: Answers) -> Answers:
    """Return the answers that all sets of launch files of a project share."""
    return {
        question.name: given[question.name]
        for question in questionnaire.questions.values()
        if question.name in given and question.meaning.concerns != LAUNCH
    }
