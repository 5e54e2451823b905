"""The generated pages: made from code, the CRD and the chart's rules when the site is built, and never committed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from docs_site import commands_page, http_page, metrics_page, python_page, resource_page, settings_page
from docs_site.documents import ROOT

OVERVIEW: Final = "docs/reference/README.md"
"""The page about them."""


def glossary() -> str:
    """The glossary of ARCHITECTURE.md as a page of its own."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = re.search(r"^## Glossary\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return "# Glossary\n" + (found[1] if found else "")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/python.md": python_page.page,
    "docs/reference/settings.md": settings_page.page,
    "docs/reference/streamingdataflow.md": resource_page.page,
    "docs/reference/streamingdataflowsnapshot.md": partial(resource_page.page, "streamingdataflowsnapshots"),
    "docs/reference/http.md": http_page.page,
    "docs/reference/metrics.md": metrics_page.page,
    "docs/reference/alerts.md": metrics_page.alerts,
    "docs/reference/commands.md": commands_page.page,
    "docs/reference/glossary.md": glossary,
}
"""Path -> what renders the page."""


def contents() -> str:
    """Links to the generated pages, from the page about them."""
    titles = {name: render().partition("\n")[0].removeprefix("# ") for name, render in PAGES.items()}
    return "\n## Pages\n\n" + "".join(f"- [{title}]({name.rpartition('/')[2]})\n" for name, title in titles.items())
