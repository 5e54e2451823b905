"""The hooks of mkdocs: the site's files are the repository's documents, the files they link to, and the generated pages.

Nothing is copied into the working tree. A page that would load anything from another host is a warning, which ends a strict build.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT: Final = Path(__file__).resolve().parents[2]
for folder in ("scripts", "operator", "runtime", "charts/tests", "runtime/tests"):
    sys.path.append(str(ROOT / folder))

from docs_site import documents, reference  # noqa: E402

EXTERNAL: Final = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?https?:[^>]*>|<link\b[^>]*\bhref=[\"']?https?:[^>]*>"
)
log: Final = logging.getLogger("mkdocs.hooks.docs_site")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation; headings have the anchors that they have on a code host."""
    config.nav = documents.expanded(config.nav or [], documents.documents())
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the repository's documents in the place of the files of mkdocs' own folder."""
    names = documents.documents()
    found = Files([file for file in files if file.src_dir != config.docs_dir])
    for name in (*names, *documents.linked_files(names)):
        found.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, render in reference.PAGES.items():
        found.append(File.generated(config, name, content=render()))
    return found


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add the links to generated pages, which do not exist on a code host, to the page about them."""
    added = reference.contents() if page.file.src_uri == reference.OVERVIEW else ""
    return pipes_in_code(markdown) + added


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Warn of what a browser would load from another host."""
    for found in external(output):
        log.warning("%s loads from another host: %s", page.file.src_uri, found)
    return output


def pipes_in_code(markdown: str) -> str:
    """Markdown without backslashes before pipes in the code of tables, which a code host needs and Python's parser shows."""
    return re.sub(r"^\|.*", _without_backslashes, markdown, flags=re.MULTILINE)


def _without_backslashes(row: re.Match[str]) -> str:
    return re.sub(r"`[^`\n]*`", lambda found: found[0].replace(r"\|", "|"), row[0])


def external(html: str) -> list[Any]:
    """The tags with which a page loads something from another host."""
    return EXTERNAL.findall(html)
