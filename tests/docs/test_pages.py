"""The tutorial and the how-to pages are followed to the letter, each in a folder of its own."""

from pathlib import Path

import pytest

from docs import page
from docs.page import Command, Edit, PageError
from docs.reader import Reader

# What a page leaves behind, besides the output that it promises.
EFFECTS = {
    "tutorial/first-project.md": ["my-project/runs/first/curve.png"],
    "tutorial/first-change.md": ["my-project/runs/killed/curve.png"],
    "tutorial/first-cluster.md": ["my-project/launch_slurm/slurm.sbatch"],
    "howto/browser.md": ["my-vision/launch/slurm.sbatch", "my-net/train.py"],
    "howto/by-hand.md": ["my-pair/launch/node.sh"],
    "howto/classify-texts.md": ["my-topics/runs/first/curve.png"],
    "howto/commit.md": ["my-project/.pre-commit-config.yaml"],
    "howto/fewer-gpus.md": ["my-run/runs/first/curve.png"],
    "howto/fine-tune.md": ["my-assistant/exported/adapter_model.safetensors"],
    "howto/fsdp.md": ["my-model/runs/first-whole/curve.png", "my-model/runs/first/curve.png"],
    "howto/hang.md": ["my-hang/runs/first/config.toml"],
    "howto/hugging-face.md": ["my-model/runs/lora/curve.png"],
    "howto/images.md": ["my-images/runs/first/curve.png", "my-vision/exported/model.safetensors"],
    "howto/memory.md": ["my-gpt/large.toml"],
    "howto/own-model.md": ["my-signals/runs/first/curve.png"],
    "howto/shards.md": ["my-shards/runs/first/curve.png", "my-shards/data/shards/index.json"],
    "howto/slow.md": ["my-run/scaling.png", "my-run/runs/look/profile.txt"],
    "howto/slurm.md": ["my-project/launch_slurm/slurm.sbatch"],
    "howto/table.md": ["my-table/runs/rent/curve.png", "my-table/runs/dear/curve.png"],
    "howto/text.md": ["my-text/runs/tokens/curve.png"],
    "howto/update.md": ["my-project/engine/failures.py"],
    "howto/use.md": ["my-model/exported/model.safetensors", "my-model/predicted.parquet"],
    "howto/weeks.md": ["my-weeks/runs/first/config.toml"],
}
LISTS = ["howto/beyond.md", "howto/index.md", "howto/troubleshooting.md"]  # to other pages
# Reasons for which a page may pass a block over.
NOT_RUN = {"asks in a terminal", "on two hosts, by tests/clusters/test_by_hand.py"}


def name(path: Path) -> str:
    return path.relative_to(page.DOCS).as_posix()


def test_every_page_has_an_effect() -> None:
    """How-to pages but those that only lead to others, and the tutorial: none is left out."""
    assert sorted(map(name, page.pages())) == sorted([*EFFECTS, *LISTS])


@pytest.mark.parametrize("path", EFFECTS)
def test_page(path: str, tmp_path: Path, forked: Path) -> None:
    """Its commands print what it promises, its edits fit, and its effect is there."""
    text = (page.DOCS / path).read_text(encoding="utf-8")
    assert set(page.not_run(text)) <= NOT_RUN
    assert any(isinstance(step, Command) and step.expected for step in page.steps(text))
    follow(text, tmp_path, forked)
    missing = [effect for effect in EFFECTS[path] if not (tmp_path / effect).is_file()]
    assert not missing


GOOD = """
```python title="hello.py"
print("hello")
```
```console
$ python hello.py    # says it
hello
$ mkdir folder && cd folder
```
```diff title="../hello.py"
-print("hello")
+print("good", 7, "day")
```
```console
$ python \\
    ../hello.py
good ... day
```
<!-- fails -->
```console
$ ls absent
```
<!-- not run: asks in a terminal -->
```console
$ false
```
"""


def follow(text: str, folder: Path, forked: Path, seconds: float = 900) -> None:
    with Reader(folder, forked, seconds) as reader:
        for step in page.steps(text):
            reader.do(step)


def test_good_page(tmp_path: Path, forked: Path) -> None:
    follow(GOOD, tmp_path, forked)
    assert (tmp_path / "hello.py").read_text() == 'print("good", 7, "day")\n'
    kinds = [type(step) for step in page.steps(GOOD)]
    assert kinds == [Edit, Command, Command, Edit, Command, Command]


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("\nhello\n", "\nhallo\n", "promises the line:\nhallo"),
        ("good ... day", "good ... night", "promises the line"),
        ('-print("hello")', '-print("hallo")', "0 places of the file"),
        ("<!-- fails -->", "", "exit code 2"),
        ("ls absent", "true", "exit code 0"),
        ("python hello.py", "python hello_.py", "exit code 2"),
        ("ls absent", "sleep 70", "did not come to an end"),
    ],
)
def test_wrong_page(right: str, wrong: str, reason: str, tmp_path: Path, forked: Path) -> None:
    """Whatever a page says wrongly is noticed."""
    assert GOOD.count(right) == 1
    seconds = 3 if "sleep" in wrong else 60
    with pytest.raises(PageError, match=reason):
        follow(GOOD.replace(right, wrong), tmp_path, forked, seconds)
