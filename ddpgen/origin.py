"""What a generated project says of its origin: which file says so, the template, its versions."""

import re
from pathlib import Path

ANSWERS_FILE = ".copier-answers.yml"
SOURCE_URL = "git+ddpgen://template"
_TAG = re.compile(r"v\d+\.\d+\.\d+(\+dev)?")


def order(tag: str) -> tuple[int, ...]:
    """Return a key that sorts tags by age; a working version comes after its last release."""
    return (*map(int, re.findall(r"\d+", tag.partition("+")[0])), "+" in tag)


def recorded_version(root: Path) -> str:
    """Return the tag of the template that a folder's project was made or last updated with.

    A folder that ddpgen did not make has none: the answer is "".
    """
    try:
        return recorded_in((root / ANSWERS_FILE).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return ""


def recorded_in(text: str) -> str:
    """Return the tag that a file of answers names, or ""."""
    recorded = dict(
        re.findall(r"^(_commit|_src_path): *['\"]?(\S+?)['\"]?\s*$", text, re.MULTILINE)
    )
    made_here = recorded.get("_src_path") == SOURCE_URL
    tag = recorded.get("_commit", "")
    return tag if made_here and _TAG.fullmatch(tag) else ""
