"""What mkdocs calls while it builds the site."""

import os
from pathlib import Path

import generated
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from ddpgen.checking import pages

# Reports that are in the navigation once a machine has written them.
TRY = "Choose in the browser, nothing to install"
REPORTS = {"GPUs": "gpu.md", "Versions of PyTorch": "versions.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the reports that are there."""
    for part in config.nav or []:
        if "Reports that machines write" in part:
            there = {t: p for t, p in REPORTS.items() if (Path(config.docs_dir) / p).is_file()}
            part["Reports that machines write"] += [{title: path} for title, path in there.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, content in generated.texts().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """A rule's page ends with the messages of the rule; the first page leads to the one to try."""
    if page.is_homepage and (place := os.environ.get("TRY")):
        link = f'<a class="md-button md-button--primary" href="{place}/index.html">{TRY}</a>\n\n'
        return markdown.replace("<!-- try -->", link)
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    return pages.explain(name) if folder == "check" and name in pages.ids() else markdown
