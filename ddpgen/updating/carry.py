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
    new default where the changes refuse it.

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
        while True:
            outdated = [
                state.question.name
                for state in after.evaluate(given | changes, earlier)
                if state.problem and state.question.name in given
                if not (state.active and state.question.name in chosen)
            ]
            if not outdated:
                return answers.resolve(after, given | changes, earlier)
            del given[outdated[0]]
    except DdpgenError as error:
        if error.option in kept:
            another = f"give another answer in the same command: {error.option}=..."
            error.remedy = error.remedy or another
        raise


def about_training(questionnaire: Questionnaire, given: Answers) -> Answers:
    """Return the answers that all sets of launch files of a project share."""
    return {
        question.name: given[question.name]
        for question in questionnaire.questions.values()
        if question.name in given and question.meaning.concerns != LAUNCH
    }
