"""Nothing is found in what ddpgen generates, in any variant of any file."""

from pathlib import Path

import pytest
from product import programs, template
from product.combinations import identifier
from product.test_files import with_every_text

from ddpgen.checking import driver
from tests.clusters import variants


@pytest.mark.parametrize("part", range(2))
def test_programs_are_clean(part: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Every value; `--programs=all`: every distinct Python file, and what it imports."""
    every = request.config.getoption("--programs") == "all"
    chosen = with_every_text(".py") if every else programs.every_value()
    assert chosen
    for answers in chosen[part::2]:
        template.write(answers, tmp_path)
        report = driver.check([tmp_path])
        own = [path for path in programs.training_files() if (tmp_path / path).exists()]
        assert report.files >= len(own)
        assert not report.findings, identifier(answers)


def test_launch_files_are_clean(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    files = variants.written(tmp_path, request.config.getoption("--programs") == "all")
    report = driver.check([tmp_path])
    # Lists of hosts and the like are no launch files.
    assert report.files > 0.9 * len([path for path in files if path.suffix != ".txt"])
    assert not report.findings
