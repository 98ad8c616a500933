"""The page in a real Chromium: choose, see what changes, take the project away."""

import io
import math
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from generator.program import ddpgen
from playwright.sync_api import Browser, Page, Route, expect
from product import training

from ddpgen.rendering.render import files_of
from ddpgen.rendering.versions import Versions
from ddpgen.web import interface
from ddpgen.web.catalogue import rows
from web.browser import CHROMIUM, chromium, served, static

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("here")) as program:
        yield program.address


@pytest.fixture(scope="module")
def anywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page as static files, built as `make site` builds it."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed: Pyodide comes from there")
    folder = tmp_path_factory.mktemp("site") / "page"
    subprocess.run([sys.executable, ROOT / ".ci" / "page.py", folder], check=True)
    with static(folder) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Open]:
    """Opens the page in a fresh profile; whatever the browser complains of is a failure."""
    wrong: list[str] = []
    contexts = []

    def opened(
        fragment: str = "",
        width: int = 1440,
        scheme: str = "light",
        address: str = address,
        place: str = "",
        held: str = "",
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        if held:
            context.route(held, lambda _: None)  # is asked for, and never comes
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{address}{place}#{fragment}" if fragment else f"{address}{place}")
        # Python starts in the browser, where no server answers.
        expect(page.locator("#text .line").first).to_be_visible(timeout=300_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def choose(page: Page, name: str, value: str) -> None:
    page.locator(f"[id='{name}-{value}']").check()
    expect(page.locator("#command")).to_contain_text(re.compile(rf"{name}=[\w,]*{value}"))


def download(page: Page) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download zip").click()
    return waiting.value.path().read_bytes()


def unpacked(packed: bytes) -> dict[str, tuple[bytes, int]]:
    """The content and the mode of each file."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        entries = archive.infolist()
        return {e.filename: (archive.read(e), e.external_attr >> 16 & 0o777) for e in entries}


def test_choose_see_the_change_and_take_the_project_away(visit: Open, tmp_path: Path) -> None:
    page = visit()
    before = page.locator("#numbers").inner_text()
    choose(page, "model", "resnet")
    expect(page.locator("#change-text")).to_contain_text("model: mlp → resnet")
    expect(page.locator("#tree button.changed[data-path='model.py']")).to_be_visible()
    expect(page.locator("#text .line.new").first).to_be_in_viewport()
    assert page.locator("#numbers").inner_text() != before
    choose(page, "clusters", "slurm")
    expect(page.locator("#tree button.added", has_text="slurm.sbatch")).to_be_visible()
    page.get_by_label("Name of the project").fill("vision")
    expect(page.locator("#command")).to_contain_text("ddpgen new vision")
    page.get_by_role("button", name="Copy command").click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == page.locator("#command").inner_text()

    packed = download(page)
    again = visit(page.url.partition("#")[2])
    assert again.locator("#command").inner_text() == command
    assert download(again) == packed

    page.reload()
    choose(page, "model", "gpt")
    page.get_by_text("Recent").click()
    page.locator("#recent").get_by_role("link", name="vision").click()
    expect(page.locator("#command")).to_have_text(command)

    done = ddpgen(*command.split()[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = unpacked(packed)
    assert sorted(found) == [f"vision/{path}" for path in files_of(tmp_path / "vision")]
    for name, (content, mode) in found.items():
        assert content == (tmp_path / name).read_bytes(), name
        assert bool(mode & 0o100) == os.access(tmp_path / name, os.X_OK), name


def test_project_that_was_taken_away_trains_on_two_processes(visit: Open, tmp_path: Path) -> None:
    for name, (content, mode) in unpacked(download(visit())).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    overrides = ["run.name=run", "train.max_steps=4", "log.every_steps=1", "log.curve=false"]
    rows = training.train(tmp_path / "my-project", 2, overrides)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4]  # the last is the evaluation
    assert all(math.isfinite(loss) for loss in training.column(rows, "train_loss"))


def test_refused_answer_is_explained_beside_until_another_one_allows_it(visit: Open) -> None:
    page = visit()
    page.get_by_label("Number of nodes").fill("2")
    expect(page.get_by_role("alert")).to_contain_text("local starts one node only")
    expect(page.get_by_role("button", name="Download zip")).to_be_disabled()
    choose(page, "clusters", "ssh")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.locator("#command")).to_contain_text("nodes=2")
    expect(page.get_by_role("button", name="Download zip")).to_be_enabled()


def test_questions_say_what_a_choice_costs_and_go_back_to_the_default(visit: Open) -> None:
    page = visit()
    cost = interface.start().cost({}, {"amp": "fp16"})
    lines = f"+{cost['added']} −{cost['removed']}"
    question = page.locator("fieldset", has_text="Automatic mixed precision")
    question.hover()
    expect(question.locator("label", has_text="fp16").locator(".cost")).to_have_text(lines)
    choose(page, "amp", "fp16")
    expect(page.locator("#change-text")).to_contain_text(f"{lines} lines")
    question.get_by_role("button", name="back to the default").click()
    expect(page.locator("#command")).to_have_text("ddpgen new my-project --defaults")
    assert page.locator("#amp-bf16").is_checked()


def test_file_that_is_opened_while_an_answer_is_on_its_way_leaves_the_answer(visit: Open) -> None:
    page = visit()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/project", hold)
    page.locator("#amp-fp16").check()
    page.locator("#tree button[data-path='steps.py']").click()
    expect(page.locator("#path")).to_have_text("steps.py")
    held[0].continue_()
    expect(page.locator("#command")).to_contain_text("amp=fp16")


def test_two_choices_are_compared_side_by_side(visit: Open) -> None:
    page = visit("model=gpt")
    page.get_by_role("button", name="Compare from here").click()
    choose(page, "amp", "off")
    choose(page, "tracker", "wandb")
    expect(page.locator("#tree button.added", has_text="test_tracker.py")).to_be_visible()
    page.locator("#tree button", has_text="steps.py").first.click()
    expect(page.locator("#path")).to_have_text("steps.py")
    page.get_by_role("button", name="Side by side").click()
    left, right = page.locator("#text .two .rows").all()
    expect(left.locator(".line.gone").first).to_be_visible()
    assert left.locator(".line").count() == right.locator(".line").count()
    assert right.locator(".line.gone").count() == 0
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#text .two")).to_be_hidden()


def test_keyboard_alone(visit: Open) -> None:
    page = visit()

    def tab_to(selector: str) -> None:
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        pytest.fail(f"Tab does not reach {selector}")

    tab_to("#model-mlp")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#command")).to_contain_text("model=table")
    assert page.evaluate("document.activeElement.id") == "model-table"
    tab_to("#accumulation")
    page.keyboard.press("Space")
    expect(page.locator("#command")).to_contain_text("accumulation=true")
    assert page.evaluate("document.activeElement.id") == "accumulation"
    tab_to("#tree button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = page.locator("#tree button").nth(1)
    expect(page.locator("#path")).to_have_text(str(second.get_attribute("data-path")))
    tab_to("#text")


def test_static_page_gives_the_same_without_any_request_once_python_is_there(
    visit: Open, anywhere: str
) -> None:
    given = {"model": "gpt", "clusters": "local,slurm", "nodes": "2", "project_name": "far"}
    page = visit("model=gpt&clusters=local,slurm", address=anywhere)
    expect(page.locator("#loading")).to_be_hidden(timeout=300_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.get_by_label("Name of the project").fill("far")
    page.get_by_label("Number of nodes").fill("2")
    expect(page.locator("#command")).to_contain_text("nodes=2")
    expect(page.locator("#text .line.new").first).to_be_in_viewport()
    assert unpacked(download(page)) == unpacked(interface.start().archive(given))
    assert [url for url in asked if not url.startswith("blob:")] == []


def test_lines_lead_to_the_pitfalls_that_they_prevent(visit: Open) -> None:
    page = visit()
    line = page.locator("#text .line", has_text="loading.prepare(cfg.data)")
    with page.expect_popup() as opened:
        line.get_by_role("link", name="D14: long preparation inside the timeout").click()
    catalogue = opened.value
    row = catalogue.locator("article.here")
    expect(row).to_be_in_viewport()
    expect(row).to_contain_text("before the process group exists")
    expect(row.locator("pre").first).to_be_visible()
    assert catalogue.locator("article").count() == len(rows())
    assert Axe().run(catalogue).violations_count == 0
    for fragment in ("G3", "%22onerror", "<img src=x onerror=alert(1)>"):
        catalogue.evaluate("fragment => { location.hash = fragment; }", fragment)
        expect(catalogue.locator("article.here")).to_have_id("G3")
    catalogue.set_viewport_size({"width": 320, "height": 900})
    assert catalogue.evaluate("document.documentElement.scrollWidth") == 320


def test_static_page_shows_all_files_before_python_is_there(visit: Open, anywhere: str) -> None:
    page = visit(address=anywhere, held="**/worker.js")
    expect(page.locator("#loading")).to_be_visible()
    for path in ("README.md", "engine/distributed.py"):
        page.locator(f"#tree button[data-path='{path}']").click()
        expect(page.locator("#path")).to_have_text(path)
    expect(page.locator("#text .reason").first).to_be_visible()


def test_updates_are_seen_for_two_versions_and_the_answers_of_a_project(
    visit: Open, tmp_path: Path
) -> None:
    """Of a file of answers that is chosen: what moved is compared with what it was."""
    given = {"model": "gpt", "clusters": ["ssh", "slurm"], "nodes": 2}
    (tmp_path / "versions").mkdir()
    versions = Versions(tmp_path / "versions")
    answers_file = tmp_path / ".copier-answers.yml"
    answers_file.write_text(
        "_commit: v0.3.0\n_src_path: git+ddpgen://template\nmodel: gpt\nnodes: 2\n"
        "clusters:\n- ssh\n- slurm\n"
    )
    page = visit(place="updates.html")
    page.locator("#file").set_input_files(answers_file)
    expect(page.locator("#change-text")).to_contain_text("0.3.0 →", timeout=60_000)
    assert page.locator("#since").input_value() == "0.3.0"
    expect(page.locator("#notes")).to_contain_text("moves files and changes nothing else")
    page.locator("#to").select_option("0.4.0")
    expect(page.locator("#change-text")).to_contain_text("→ 0.4.0")
    assert page.locator("#notes h2").all_inner_texts() == ["0.4.0"]
    state = page.locator("#tree button[data-path='engine/state.py']")
    assert state.get_attribute("title") == "state.py before"
    versions["v0.4.0"].render(given, tmp_path / "later")
    state.click()
    expect(page.locator("#path")).to_have_text("engine/state.py")
    shown = page.locator("#text .line:not(.gone) code").all_inner_texts()
    later = (tmp_path / "later" / "engine" / "state.py").read_text()
    assert [line.rstrip("\n") for line in shown] == later.splitlines()
    assert Axe().run(page).violations_count == 0
    (tmp_path / "other.yml").write_text("a: 1")
    page.locator("#file").set_input_files(tmp_path / "other.yml")
    expect(page.locator("#notice")).to_contain_text("other.yml")


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1440, "dark")])
def test_page_fits_and_is_accessible(visit: Open, width: int, scheme: str) -> None:
    page = visit("model=resnet&nodes=2&x=1", width=width, scheme=scheme)
    page.get_by_label("Number of nodes").fill("3")
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    for other in (900, 3840) if width == 320 else ():
        page.set_viewport_size({"width": other, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == other


def test_loading_shifts_nothing_and_asks_nobody_else(visit: Open, address: str) -> None:
    page = visit()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    expect(page.locator("#text .line").first).to_be_visible()
    choose(page, "model", "gpt")
    assert all(url.startswith(address) for url in asked)
    shifts = """new Promise(done => new PerformanceObserver(list => done(list.getEntries()
        .filter(entry => !entry.hadRecentInput).reduce((sum, entry) => sum + entry.value, 0)))
        .observe({type: "layout-shift", buffered: true}) || setTimeout(() => done(0), 300))"""
    assert page.evaluate(shifts) < 0.02


HOSTILE = [
    "model=<img src=x onerror=document.title='pwned'>",
    "%3Cscript%3E=1&v=%00",
    "a",
    "%",
    "project_name='\"><b>",
]


def test_hostile_addresses_are_told_and_have_no_effect(visit: Open) -> None:
    page = visit(HOSTILE[0])
    for fragment in HOSTILE:
        page.locator("#notice-close").click()
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        expect(page.locator("#notice")).to_be_visible()
        assert page.title() == "ddpgen"
        assert page.locator("#notice img, #notice script, #notice b").count() == 0
        expect(page.locator("#command")).to_have_text("ddpgen new my-project --defaults")
