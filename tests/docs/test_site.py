"""The documentation as it is built: strictly, and what its first page shows at first sight."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from web.browser import CHROMIUM, chromium, static

ROOT = Path(__file__).resolve().parents[2]
SCREEN = {"width": 1280, "height": 720}
# What one types, the curve that one sees, and the tree of files that one gets.
SHOWN = {"pre >> nth=0": "ddpgen new", "img >> nth=0": "", "pre >> nth=1": "train.py"}

pytestmark = pytest.mark.skipif(not find_spec("mkdocs"), reason="`make docs` installs mkdocs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them: a warning is an error."""
    # Without --quiet, by which mkdocs counts no warnings.
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    assert {str(path) for path in pages - built} == {"check/_index.md"}, "the hook makes index.md"


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_first_page_shows_commands_tree_and_curve_within_a_screen(site: Path) -> None:
    with static(site) as address, chromium() as browser:
        page = browser.new_context(viewport=SCREEN).new_page()
        page.goto(f"{address}index.html")
        for selector, words in SHOWN.items():
            part = page.locator(f".landing {selector}")
            assert words in part.inner_text()
            box = part.bounding_box()
            assert box, selector
            assert box["height"] > 50, f"{selector} is empty"
            assert box["y"] + box["height"] <= SCREEN["height"], f"{selector} is below the screen"
