"""Distinct launch files, from all values of all questions that launch files read."""

import itertools
import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import jinja2
import yaml
from jinja2 import meta
from product.combinations import cover
from product.kept import kept
from product.template import INCLUDE

from ddpgen.asking import questions
from ddpgen.asking.question import Answers, Value
from ddpgen.fetching import template_source

TEMPLATE = template_source.template_root()
LAUNCH = TEMPLATE / "project" / "{{launch_folder}}"
ALL = ["local", "ssh", "slurm", "kubernetes", "pbs", "lsf", "skypilot"]
WORST = "A_b.c-D"  # every kind of character that an answer for a shell or YAML file may hold
VALUES: dict[str, list[Value]] = {
    "project_name": [WORST],
    "clusters": [ALL, [c for c in ALL if c != "kubernetes"], ["ssh", "pbs", "lsf"], ["local"]],
    "checkpoint": [True, False],
    "nodes": [1, 2],
    "gpus_per_node": [3],  # and none: see `contexts`
    "processes_per_node": [5],
    "network": [],  # all choices
    "gpu_vendor": ["nvidia"],  # the other has not all networks: see `contexts`
    "container": [],  # all choices
    "container_image": ["~/a#b@c+d:e~f-g_h.sif"],
    "time_limit": ["1:02:03"],
    "cpus_per_gpu": [7],
    "launch_folder": ["launch"],
    "tools": [[], ["preflight"]],
    "watch": [[], ["starts"]],
}
# Answers that may be empty, or have their default: none, each by itself, and all at once.
OPTIONAL: Answers = {
    "interface": "eth0.1-b_c",
    "rdma_cards": "mlx5_0,mlx5_10:1",
    "partition": "_a,b.c-D",
    "account": "_a.b-C",
    "gpu_type": "_a.b-C",
    "qos": "_a.b-C",
    "constraint": "_a.b&c|D-e",
    "memory": "480G",
    "kueue_queue": "a-b.c",
    "gpu_request": "gres",
    "modules": "a/1.0-b c_d+e",
    "sharding": "fsdp",
}


@cache
def environment() -> jinja2.Environment:
    """Copier's way to render, as copier.yml states it."""
    options = yaml.safe_load((TEMPLATE / "copier.yml").read_text())["_envops"]
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
        **{**options, "undefined": jinja2.StrictUndefined},
    )


def read_by_launch_files() -> set[str]:
    """The questions that any launch file or part of one reads."""
    parts = [TEMPLATE / "parts" / "launch", TEMPLATE / "parts" / "network"]
    files = [p for folder in (LAUNCH, *parts) for p in folder.rglob("*") if p.is_file()]
    names: set[str] = set()
    for file in files:
        names |= meta.find_undeclared_variables(environment().parse(file.read_text()))
    defined = questions.load().questions
    read = names & defined.keys()
    while computed := {name for name in read if defined[name].computed}:
        read -= computed
        for name in computed:
            text = str(defined[name].default)
            read |= {other for other in defined if re.search(rf"\b{other}\b", text)}
    return read


def contexts() -> Iterator[Answers]:
    """What templates see, for every combination of values that ddpgen accepts; each once.

    An answer to a question that does not apply changes nothing: many combinations give the same.
    """
    questionnaire = questions.load()
    values = {n: v or list(questionnaire.questions[n].values) for n, v in VALUES.items()}
    optional: list[Answers] = [{}, *({k: v} for k, v in OPTIONAL.items()), OPTIONAL]
    optional += [{"gpus_per_node": 0}, {"gpu_vendor": "amd"}]
    known: set[str] = set()
    for *combination, more in itertools.product(*values.values(), optional):
        given = {**dict(zip(values, combination, strict=True)), **more}
        seen: Answers = {}
        for state in questionnaire.evaluate(given):
            if state.active and state.problem:
                break
            seen[state.question.name] = state.value
        else:
            key = repr(seen)
            if key not in known:
                known.add(key)
                yield seen


@kept
def rendered() -> dict[str, list[str]]:
    """Path in launch/ -> the distinct texts that it can have."""
    files: dict[str, list[str]] = {}
    folder = LAUNCH.relative_to(TEMPLATE).as_posix()
    names = environment().list_templates(filter_func=lambda name: name.startswith(f"{folder}/"))
    rows = list(contexts())
    for name in names:
        path = name.removeprefix(f"{folder}/")
        if path.endswith(".jinja"):
            render = environment().get_template(name).render
            texts = {render(row) for row in _different(rows, _read_by(name, rows))}
        else:
            texts = {template_text(name)}
        files[path.removesuffix(".jinja")] = sorted(texts)
    return files


def _different(rows: list[Answers], names: set[str]) -> Collection[Answers]:
    """One of the rows for each combination of the values of these questions."""
    wanted = sorted(names & rows[0].keys())
    return {repr([row[name] for name in wanted]): row for row in rows}.values()


def _read_by(name: str, rows: list[Answers]) -> set[str]:
    """What a template reads, and each part that it includes in any of the rows."""
    text = template_text(name)
    read = meta.find_undeclared_variables(environment().parse(text))
    for expression in INCLUDE.findall(text):
        used = meta.find_undeclared_variables(environment().parse("{{" + expression + "}}"))
        part = environment().compile_expression(expression)
        for included in {part(row) for row in _different(rows, used)}:
            if (TEMPLATE / included).exists():
                read |= _read_by(included, rows)
    return read


@cache
def template_text(name: str) -> str:
    """A file that never varies."""
    return (TEMPLATE / name).read_text()


def chosen(texts: list[str]) -> list[str]:
    """Few of a file's texts that together have every two lines that follow each other in any."""
    return [texts[n] for n in cover([set(pairwise(["", *text.splitlines()])) for text in texts])]


def written(folder: Path, every: bool) -> list[Path]:
    """Write every distinct text, or a few, to files of their own below `folder`; returns these."""
    paths = []
    for name, texts in rendered().items():
        for number, text in enumerate(texts if every else chosen(texts)):
            path = folder / str(number) / "launch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            paths.append(path)
    return paths
