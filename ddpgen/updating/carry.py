"""Carries a project's recorded answers over to other answers or another version's questions."""

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
        renewed: Answers = {}
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
