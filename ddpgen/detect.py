"""What this machine and its cluster offer, as suggestions for answers.

Never waits long, never fails.
"""

import re
import unicodedata
from pathlib import Path

from ddpgen.questions import Answers, Questionnaire


def from_path(questionnaire: Questionnaire, path: Path) -> Answers:
    """Return the project name that a path suggests, if it gives a valid one."""
    ascii_name = unicodedata.normalize("NFKD", path.absolute().name).encode("ascii", "ignore")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", ascii_name.decode())
    name = re.sub(r"^[^A-Za-z]+", "", name)[:64].rstrip("._-")
    question = questionnaire.questions["project_name"]
    return {} if questionnaire.refusal(question, name, {}) else {"project_name": name}
