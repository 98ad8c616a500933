"""The server answers its own page, and nobody else."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from generator.program import ddpgen

from ddpgen.web.server import PAGE
from web.browser import Program, served


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with served(tmp_path_factory.mktemp("here")) as program:
        yield program


def test_page_and_calls_are_answered(program: Program) -> None:
    for name in ["", *(path.name for path in PAGE.iterdir())]:
        reply, content = program.ask("GET", f"/{program.token}/{name}")
        assert reply.status == 200, name
        assert content == (PAGE / (name or "index.html")).read_bytes()
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    body = json.dumps({"given": {"model": "gpt"}, "base": None})
    reply, content = program.ask(
        "POST", f"/{program.token}/project", body, Origin=f"http://{program.host}"
    )
    assert reply.status == 200
    assert json.loads(content)["command"].endswith("model=gpt")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (421, {"Host": "attacker.example"}),
        (421, {"Host": "attacker.example:{port}"}),
        (403, {"Origin": "http://attacker.example"}),
        (403, {"Origin": "null"}),
        (404, {"Content_Type": "text/plain"}),
        (413, {"Content_Length": "10000000"}),
    ],
)
def test_foreign_requests_are_refused(
    program: Program, status: int, headers: dict[str, str]
) -> None:
    port = program.host.partition(":")[2]
    headers = {name: text.format(port=port) for name, text in headers.items()}
    assert (
        program.ask("POST", f"/{program.token}/read", '{"text": ""}', **headers)[0].status == status
    )


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index.html",
        "/{token}",
        "/wrong/",
        "/{token}x/",
        "/{token}/../server.py",
        "/{token}//etc/passwd",
        "/{token}/%2e%2e/server.py",
        "/{token}/page/index.html",
        "/%C3%A9/",
    ],
)
def test_nothing_else_is_served(program: Program, path: str) -> None:
    reply, content = program.ask("GET", path.format(token=program.token))
    assert reply.status == 404
    assert content == b""


@pytest.mark.parametrize("body", ["", "{", "[]", '{"given": 1}', '{"given": {"nodes": "2"}}'])
def test_wrong_calls_are_refused(program: Program, body: str) -> None:
    assert program.ask("POST", f"/{program.token}/archive", body)[0].status == 400
    assert program.ask("POST", f"/{program.token}/__init__", body)[0].status == 404


def test_only_this_machine_is_listened_to(program: Program) -> None:
    port = int(program.host.partition(":")[2])
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    other = [line.split()[1] for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert f"0100007F:{port:04X}" in listening
    assert not [place for place in other if place.endswith(f":{port:04X}")]


def test_port_that_is_taken_is_a_mistake_told_in_one_line(program: Program, tmp_path: Path) -> None:
    port = program.host.partition(":")[2]
    for text, reason in ((port, "Address already in use"), ("70000", "0-65535"), ("x", "invalid")):
        done = ddpgen("web", "--no-browser", "--port", text, cwd=tmp_path)
        assert done.returncode == 2, text
        assert reason in done.stderr
        assert "Traceback" not in done.stderr


def test_help_imports_no_server() -> None:
    code = "import sys; from ddpgen import cli; cli._parser(['web']); print('http' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
