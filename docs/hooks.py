"""Pages that are made while the documentation is built, so that they cannot be out of date."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ddpgen.asking import options
from ddpgen.checking import pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the option reference, the lists of decision records and of rules."""
    pages = {
        "options.md": options.describe("markdown"),
        "check/index.md": rules(Path(config.docs_dir) / "check" / "_index.md"),
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


def rules(introduction: Path) -> str:
    """The checker's page, with a list of its rules."""
    lines = [f"- [{name}]({name}.md): {pages.title(name)}" for name in pages.ids()]
    return introduction.read_text(encoding="utf-8") + "\n" + "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """A rule's page ends with what is reported."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    return pages.explain(name) if folder == "check" and name in pages.ids() else markdown
