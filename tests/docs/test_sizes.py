"""The sizes of models on the page are those that the tool `memory` counts today."""

from pathlib import Path

from docs import sizes


def test_page_has_what_the_tool_counts(tmp_path: Path) -> None:
    """All rows are there, and the cheapest one is computed anew."""
    text = sizes.PAGE.read_text(encoding="utf-8")
    for model in sizes.MODELS:
        assert all(f"| {model} | {lever} | " in text for lever in sizes.LEVERS)
    assert sizes.row("124 M", "micro-batch of 1", tmp_path) in text


def test_page_has_what_ranks_do_together() -> None:
    """As `make scaling` has measured it."""
    begin, end = sizes.WORTH
    assert f"{begin}{sizes.worth()}{end}" in sizes.PAGE.read_text(encoding="utf-8")
