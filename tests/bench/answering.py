"""How soon the page of `ddpgen web` shows its first file and the effect of an answer."""

import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.commands import ROOT
from bench.tree import Times

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = "answers"
# The names of the figures; the page and the goals read them.
HERE, ANYWHERE = "an answer, `ddpgen web`", "an answer, static page"
FIRST, FIRST_WITH = "first file, static page", "first file, static page, answers in the address"
# Clicks each choice of every question in turn; seconds until the file is drawn anew.
CLICK = """
async id => {
  const input = document.getElementById(id);
  if (!input || input.disabled || input.type === "radio" && input.checked) return null;
  const drawn = new Promise(done => {
    const seen = new MutationObserver(() => { seen.disconnect(); requestAnimationFrame(done); });
    seen.observe(document.getElementById("text"), { childList: true });
  });
  const begin = performance.now();
  input.click();
  await drawn;
  return (performance.now() - begin) / 1000;
}
"""


def measure(build: Path, rounds: int) -> tuple[Times, str]:
    """Seconds in the browser; or why there are none."""
    if not shutil.which("chromium") or not importlib.util.find_spec("playwright"):
        return {}, "Chromium or Playwright is not installed"
    from web.browser import chromium, served, static

    times: Times = {}
    with ExitStack() as stack:
        browser = stack.enter_context(chromium())
        folder = build / "here"
        folder.mkdir(parents=True, exist_ok=True)
        addresses = {HERE: stack.enter_context(served(folder)).address}
        if shutil.which("npm"):
            page = [sys.executable, ROOT / ".ci" / "page.py", build / "page"]
            subprocess.run(page, check=True)
            addresses[ANYWHERE] = stack.enter_context(static(build / "page"))
            for name, end in ((FIRST, ""), (FIRST_WITH, "#model=gpt")):
                found = (_first(browser, f"{addresses[ANYWHERE]}{end}") for _ in range(rounds))
                times[name] = [*found]
        for name, address in addresses.items():
            times[name] = [*_effects(browser, address)]
    return times, ""


def _first(browser: "Browser", address: str) -> float:
    """Seconds until a fresh profile shows a file."""
    context = browser.new_context()
    page = context.new_page()
    begin = time.perf_counter()
    page.goto(address)
    page.locator("#text .line").first.wait_for()
    seconds = time.perf_counter() - begin
    context.close()
    return seconds


def _effects(browser: "Browser", address: str) -> Iterator[float]:
    """Seconds of the effect of each choice that the page offers at its start."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.locator("#text .line").first.wait_for()
    page.locator("#loading").wait_for(state="hidden")
    page.wait_for_timeout(5_000)  # templates are compiled in the background
    inputs = page.locator("#questions input[type=radio], #questions input[type=checkbox]")
    for name in inputs.evaluate_all("inputs => inputs.map(({ id }) => id)"):
        seconds = page.evaluate(CLICK, name)
        if seconds is not None:
            yield seconds
    context.close()
