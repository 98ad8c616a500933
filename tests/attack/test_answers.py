"""Hostile answers: one clear error, or a project in which nothing of them has any effect."""

import ast
import functools
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from generator.program import everything
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ddpgen import origin
from ddpgen.asking import answers, questions
from ddpgen.asking.question import Answers, Question
from ddpgen.errors import DdpgenError
from ddpgen.fetching import template_source
from ddpgen.rendering import render

CANARY = "pwned"
HOSTILE = [
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"; touch {CANARY} #",
    f"' && touch {CANARY} && '",
    f'" | touch {CANARY} "',
    f"\n#SBATCH --wrap='touch {CANARY}'\n",
    f"x\ntouch {CANARY}",
    f"--config=/etc/passwd;touch {CANARY}",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "# {% endif %}",
    "{{ ''.__class__.__mro__ }}",
    "../../../outside",
    "/absolute/path",
    "~root",
    "a\0b",
    "x" * 100_000,
    "\u202egnp.exe",
    "имя-проекта",
    "名前",
    "\ud800",
    "%s%n${PATH}",
    "$HOME",
    '"""',
    "'''",
    "\\",
    "\\n",
    "a: b",
    "- a",
    "*alias",
    "&anchor",
    "!!python/object:os.system",
    "[x]",
    "{x: y}",
    "null",
    "~",
    "1e3",
    "0x10",
    "nan",
    "True",
    "None",
    "class",
    "torch",
    "test",
    "tests",
    "train",
    "con",
    ".",
    "..",
    "-rf",
    "*",
    "",
    " ",
    "\t",
    "\r\n",
    "\x1b[31m",
    "\uff19",
]
# What validators let through, so that these answers meet the templates.
PLAUSIBLE = ["torch", "test", "numpy-", "a.b-c_d", "A" * 64, "x1", "eth0", "00:00:30", "9999:59:59"]
PLAUSIBLE += ["a100", "p,q", "acc.1", "repo/image:tag@sha256~x+y#z", "~/image.sif", "1", "2", "17"]
TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from(PLAUSIBLE),
    st.text(max_size=40),
    st.lists(st.sampled_from([*HOSTILE[:8], "a", "-", "/", "."]), max_size=4).map("".join),
)


def value(question: Question, mild: bool) -> st.SearchStrategy[str]:
    """What somebody may write for a question: mostly what is right, or something hostile.

    A mild one is often accepted, so that it meets the templates.
    """
    good = [*question.values, *(["true", "false"] if question.type == "bool" else [])]
    if mild:
        numbers = st.integers(1, 64).map(str)
        free = numbers if question.type == "int" else st.sampled_from(PLAUSIBLE)
        return st.sampled_from(good) if good else free
    if question.type == "int":
        return st.one_of(st.integers(1, 64).map(str), st.integers().map(str), TEXT)
    if good:
        usual = st.sampled_from(good)
        return st.one_of(usual, usual, usual, usual, usual, usual, usual, TEXT)
    return st.one_of(st.sampled_from(PLAUSIBLE), TEXT)


@st.composite
def flags(draw: st.DrawFn) -> list[str]:
    mild = draw(st.integers(0, 4)) == 0
    known = list(questions.load().questions.values())
    known = [question for question in known if not (mild and question.computed)]
    chosen = draw(st.lists(st.sampled_from(known), unique_by=lambda q: q.name, max_size=7))
    found = [f"{question.name}={draw(value(question, mild))}" for question in chosen]
    odd = st.one_of(TEXT, st.tuples(TEXT, TEXT).map("=".join))
    return found + draw(st.lists(odd, max_size=1)) if draw(st.integers(0, 9)) == 0 else found


def accepted(tries: Counter[str], data: list[str]) -> Answers | None:
    """Return the answers, or None after one clear error."""
    questionnaire = questions.load()
    try:
        complete = answers.resolve(questionnaire, answers.from_flags(questionnaire, data))
    except DdpgenError as error:
        refused = error
    else:
        tries["accepted"] += 1
        return complete
    tries["refused"] += 1
    assert refused.exit_code == 2
    assert 0 < len(str(refused)) < 2000
    assert len(str(refused).splitlines()) <= 2
    assert all(line.isprintable() for line in str(refused).splitlines())
    return None


@functools.cache
def bash_accepts(text: bytes) -> bool:
    return (
        subprocess.run(["bash", "-n"], input=text, capture_output=True, check=False).returncode == 0
    )


@functools.cache
def parses(suffix: str, content: bytes) -> bool:
    text = content.decode()
    if suffix == ".py":
        ast.parse(text)
    elif suffix == ".toml":
        tomllib.loads(text)
    elif suffix in {".yaml", ".yml"}:
        list(yaml.safe_load_all(text))
    elif suffix in {".sh", ".sbatch"}:
        assert bash_accepts(content)
    return True


def check(project: Path, complete: Answers) -> None:
    """See that every file parses and that the answers come back from their file."""
    for path in (project / name for name in render.files_of(project)):
        assert not path.is_symlink()
        assert parses(path.suffix, path.read_bytes()), path
    file = project / origin.ANSWERS_FILE
    saved = yaml.safe_load(file.read_text())
    assert {k: v for k, v in saved.items() if not k.startswith("_")} == complete
    questionnaire = questions.load()
    again = answers.resolve(questionnaire, answers.from_file(questionnaire, file))
    assert again == complete


def test_hostile_answers(
    tmp_path: Path, request: pytest.FixtureRequest, say: Callable[[str], None]
) -> None:
    tries: Counter[str] = Counter()
    place = tmp_path / "place"
    rendered: set[str] = set()

    @settings(
        max_examples=request.config.getoption("--attacks"),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(flags())
    def attack(data: list[str]) -> None:
        complete = accepted(tries, data)
        if complete is None or repr(complete) in rendered:
            return
        rendered.add(repr(complete))
        place.mkdir()
        try:
            render.create(complete, place / "p")
            assert [path.name for path in place.iterdir()] == ["p"]
            check(place / "p", complete)
        finally:
            shutil.rmtree(place)
        assert everything(tmp_path) == []

    attack()
    say(f"hostile sets of answers: {dict(tries)}, {len(rendered)} projects rendered")
    assert tries["refused"]
    assert tries["accepted"]


SCRIPTS = {"local", "ssh", "slurm", "pbs", "lsf"}


@pytest.mark.parametrize("text", HOSTILE[:8])
def test_nothing_for_a_shell_gets_into_an_answer(text: str) -> None:
    """Every option that takes free text, where it applies."""
    questionnaire = questions.load()
    base: Answers = {"clusters": sorted(SCRIPTS), "nodes": 2, "container": "apptainer"}
    base["network"] = "infiniband"
    pods = base | {"clusters": ["kubernetes"], "container": "docker"}
    free = [q for q in questionnaire.questions.values() if q.type == "str" and not q.choices]
    names = [question.name for question in free if not question.computed]
    assert len(names) > 5
    usual = {"time_limit": "1:00:00", "memory": "8G", "launch_folder": "launch_1"}
    for name in names:
        seen = pods if name == "kueue_queue" else base
        answers.resolve(questionnaire, seen | {name: usual.get(name, "usual")})
        with pytest.raises(DdpgenError):
            answers.resolve(questionnaire, seen | {name: text})


def test_template_needs_no_trust() -> None:
    """Each of these would make plain `copier update` ask for --trust."""
    settings_ = yaml.safe_load((template_source.template_root() / "copier.yml").read_text())
    keys = {key for key in settings_ if key.startswith("_")}
    assert "_subdirectory" in keys
    assert not keys & {"_tasks", "_migrations", "_jinja_extensions", "_external_data"}
