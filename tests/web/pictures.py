"""Draws docs/pictures/page-light.png and page-dark.png: the page after an answer has changed.

python -m web.pictures    in the folder tests; after a change of the page or the questions
"""

import tempfile
from pathlib import Path

from playwright.sync_api import expect

from web.browser import chromium, served

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZE = {"width": 1360, "height": 820}


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as program,
        chromium() as browser,
    ):
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=scheme)
            page = context.new_page()
            page.goto(f"{program.address}#model=resnet&clusters=local,slurm&nodes=2")
            page.locator("#amp-fp16").check()
            expect(page.locator("#change-text")).to_contain_text("fp16")
            page.locator("#tree button", has_text="steps.py").first.click()
            expect(page.locator("#path")).to_have_text("steps.py")
            costs = page.locator("fieldset", has_text="Automatic mixed").locator(".cost")
            expect(costs.first).not_to_be_empty()
            page.screenshot(path=PICTURES / f"page-{scheme}.png")
            context.close()


if __name__ == "__main__":
    main()
