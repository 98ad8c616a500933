"""docs/pitfalls.md promises tests in the generated project: tests/mutants/rows.toml names them."""

import re
import tomllib
from pathlib import Path

from ddpgen.fetching import template_source

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"\| ([A-Z]\d+) \| .+ \| ([CTSR -]+) \| .+ \|")


def test_page_promises_what_tests_notice() -> None:
    """A row with T has tests; the tests exist, and their rows say T."""
    rows = dict(ROW.findall((ROOT / "docs/pitfalls.md").read_text(encoding="utf-8")))
    assert len(rows) > 50
    promised = {name for name, guard in rows.items() if "T" in guard}
    named = tomllib.loads((ROOT / "tests/mutants/rows.toml").read_text(encoding="utf-8"))
    assert promised - named.keys() == set(), "promised on the page, noticed by no test"
    assert named.keys() - rows.keys() == set(), "noticed by a test, not on the page"
    template = template_source.template_root()
    files = [*template.glob("project/tests/**/test_*"), *template.glob("parts/*/test_*.py")]
    tests = set(
        re.findall(r"^def (test_\w+)", "\n".join(f.read_text() for f in files), re.MULTILINE)
    )
    missing = {name for names in named.values() for name in names} - tests
    assert missing == set(), "named in rows.toml, in no project"
