"""The documents of the site: which there are, what they link to, and their places in the navigation.

The site has the folders of the repository, so that relative links are the same on a code host and on the site. This module knows
neither mkdocs nor the content of generated pages (`reference`): tests use it without the group `docs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = ROOT / "mkdocs.yml"
FOLDERS: Final = ("charts", "docs", "e2e", "runtime/examples")
"""Markdown files in these folders are pages, and so are those of the root."""

_LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def documents(root: Path = ROOT) -> list[str]:
    """The paths of all documents, from the root of the repository."""
    found = [*root.glob("*.md"), *(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))]
    return sorted(path.relative_to(root).as_posix() for path in found)


def linked_files(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """The files that documents link to, other than documents: pictures, manifests, programs."""
    found = set()
    for name in names:
        folder = (root / name).parent
        for target in _LINK.findall(_CODE.sub("", (root / name).read_text(encoding="utf-8"))):
            path = (folder / target).resolve()
            if path.is_file() and path.suffix != ".md":
                found.add(path.relative_to(root).as_posix())
    return sorted(found)


def expanded(navigation: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """A navigation in which an entry that ends with ``/*`` stands for the folder's pages that have no entry of their own."""
    listed = set(pages(navigation))
    return [entry for each in navigation for entry in _expanded(each, names, listed)]


def _expanded(entry: Any, names: Sequence[str], listed: set[str]) -> Iterator[Any]:
    if isinstance(entry, Mapping):
        ((title, below),) = entry.items()
        yield {title: expanded_below(below, names, listed)}
    elif str(entry).endswith("/*"):
        folder = str(entry).removesuffix("*")
        yield from (name for name in names if name.startswith(folder) and name not in listed)
    else:
        yield entry


def expanded_below(below: Any, names: Sequence[str], listed: set[str]) -> Any:
    """What is below one title: a page, or a list."""
    if isinstance(below, str):
        return below
    return [found for each in below for found in _expanded(each, names, listed)]


def pages(navigation: Any) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(navigation, Mapping):
        return pages(list(navigation.values()))
    if isinstance(navigation, str):
        return [navigation]
    return [page for each in navigation for page in pages(each)]


def configured() -> dict[str, Any]:
    """The configuration of the site."""
    found: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return found
