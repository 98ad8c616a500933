"""Pages that are made while the documentation is built, so that they cannot be out of date."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ddpgen import options


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the option reference and the list of decision records."""
    pages = {
        "options.md": options.describe("markdown"),
        "decisions/index.md": decisions(Path(config.docs_dir) / "decisions"),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def decisions(folder: Path) -> str:
    """A list with the title of each record."""
    records = sorted(folder.glob("[0-9]*.md"))
    titles = [record.read_text(encoding="utf-8").partition("\n")[0][2:] for record in records]
    lines = [f"- [{t}]({r.name})" for t, r in zip(titles, records, strict=True)]
    head = "# Decisions\n\nOne page each: the situation, what was chosen, and what follows.\n\n"
    return head + "\n".join(lines) + "\n"
