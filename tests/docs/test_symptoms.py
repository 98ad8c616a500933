"""The page of symptoms: its words are those of the programs, its commands name what there is."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpgen.rendering.render import render
from docs.page import DOCS

PAGE = (DOCS / "howto/troubleshooting.md").read_text(encoding="utf-8")
ALL = {
    "tools": ["preflight", "memory", "scaling", "profile", "checkpoints"],
    "clusters": ["local", "ssh", "slurm"],
    "nodes": 2,
    "network": "ethernet",
    "accumulation": True,
}
# Words of others: torch, the C library, NCCL, the shell.
OTHERS = r"EADDRINUSE|address already|Expected all tensors|CUDA out of memory|torch\._dynamo|Errno"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("symptoms") / "project"
    render(ALL, folder)
    return folder


def rows() -> Iterator[list[str]]:
    """The cells of all tables of symptoms, without their heads and without what NCCL says."""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| warning"):  # NCCL's tables follow
            return
        if line.startswith("|") and len(cells) == 3 and cells[0] != "symptom":
            yield cells


def test_quoted_symptoms_are_words_of_the_programs(project: Path) -> None:
    """Between the dots: what a program fills in."""
    sources = [*project.rglob("*.py"), *project.rglob("*.sh")]
    # Texts over several lines of source, and their values, become one.
    text = " ".join(path.read_text() for path in sources)
    text = re.sub(r'"\s+f?"', "", text)
    text = re.sub(r"\{[^{}]*\}|\$\{?\w+\}?|\$\(.*?\)", "...", text)
    quoted = [q for cells in rows() for q in re.findall(r"`([^`]*)`", cells[0])]
    spoken = [q for q in quoted if " " in q and not re.search(OTHERS, q)]
    assert len(spoken) > 10
    for symptom in spoken:
        parts = re.split(r"\.{3,}|\b\d+\b", symptom)
        words = [part.strip(" :,/") for part in parts if len(part.strip(" :,/")) > 3]
        missing = [part for part in words if part not in text]
        assert not missing, f"{symptom}: no program says {missing}"


def test_commands_name_what_there_is(project: Path) -> None:
    """Tests, tools, files of the project, and keys of its config."""
    config = tomllib.loads((project / "config.toml").read_text())
    keys = {f"{section}.{key}" for section, table in config.items() for key in table}
    for path in re.findall(r"`pytest (\S+?)(?: |`)", PAGE):
        assert (project / path).exists(), path
    for tests, name in re.findall(r"`pytest (\S+) -k (\w+)`", PAGE):
        assert name in (project / tests).read_text(), name
    for tool in re.findall(r"-m (tools\.\w+)", PAGE):
        place = project / tool.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").exists(), tool
    for file in re.findall(r"`((?:launch|engine)/[\w./]+)", PAGE):
        assert (project / file.rstrip("/")).exists(), file
    for key in re.findall(r"\b((?:run|data|train|optim|ddp|log)\.[a-z_]+)\b", PAGE):
        assert key in keys or key in ("run.reporter", "train.py"), key
