"""The site has every document and every generated page in its navigation; generated pages name all that the code declares.

Needs no mkdocs. `make docs` builds the site, in which every link must lead somewhere.
"""

from __future__ import annotations

import doctest
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "charts" / "tests"))

import declared
from docs_site import documents, http_page, markdown, metrics_page, reference, resource_page, settings_page

import binshift
from binshift import cli
from binshift.hosting.kubectl import plugin
from binshift.settings import Settings

NAMES = documents.documents()
NAVIGATION = documents.pages(documents.expanded(documents.configured()["nav"], NAMES))


def test_every_entry_exists() -> None:
    """An entry of the navigation is a document or a generated page."""
    assert [page for page in NAVIGATION if page not in NAMES and page not in reference.PAGES] == []


def test_every_page_has_an_entry() -> None:
    """Every document and every generated page is in the navigation, once."""
    assert sorted(NAVIGATION) == sorted([*NAMES, *reference.PAGES])


def test_documents_are_those_of_the_repository() -> None:
    """Documents of the root, the guides, the decisions, the chart and the examples are pages; files that they link to are part of the site."""
    expected = {"README.md", "docs/guides/install.md", "docs/decisions/README.md", "charts/binshift/README.md"}
    assert expected - set(NAMES) == set()
    assert not any(name.startswith((".", "build/")) for name in NAMES)
    linked = documents.linked_files(NAMES)
    assert {"LICENSE", "docs/guides/verify.yaml", "docs/images/rescale.png"} - set(linked) == set()
    assert [name for name in linked if name.endswith(".md")] == []


def test_folder_stands_for_its_other_pages() -> None:
    """`docs/x/*` is replaced by the pages of that folder without an entry of their own."""
    navigation = [{"One": ["docs/x/a.md", "docs/x/*"]}, {"Two": "docs/y.md"}]
    names = ["docs/x/a.md", "docs/x/b.md", "docs/x/c.md", "docs/y.md"]
    assert documents.expanded(navigation, names) == [
        {"One": ["docs/x/a.md", "docs/x/b.md", "docs/x/c.md"]},
        {"Two": "docs/y.md"},
    ]


def test_links_in_code_are_none(tmp_path: Path) -> None:
    """What resembles a link in code is not followed, and neither are links to folders and to other hosts."""
    (tmp_path / "a.md").write_text(
        "[x](b.yaml) [y](docs) [z](https://a.example/c.yaml)\n```sh\n[x](c.yaml)\n```\n`[x](c.yaml)`\n"
    )
    for name in ("b.yaml", "c.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "docs").mkdir()
    assert documents.linked_files(["a.md"], tmp_path) == ["b.yaml"]


def test_builds_are_strict_and_load_nothing() -> None:
    """A broken link, a missing anchor or a page without an entry ends the build; fonts are the system's."""
    found = documents.configured()
    assert found["strict"] is True
    assert found["theme"]["font"] is False
    assert set(found["validation"]["links"].values()) | set(found["validation"]["nav"].values()) == {"warn"}
    assert found["site_dir"] == "build/site"


@pytest.mark.parametrize("module", [markdown, metrics_page], ids=lambda module: module.__name__)
def test_examples_of(module: Any) -> None:
    """The examples in docstrings are right."""
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", reference.PAGES)
def test_page_is_well_formed(name: str) -> None:
    """A generated page begins with its title; each row of its tables has as many cells as the head."""
    text = reference.PAGES[name]()
    assert re.match(r"# \w", text)
    for rows in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`\n]*`", "", row))) for row in rows.splitlines()}
        assert len(counts) == 1, rows[:200]
    assert "object at 0x" not in text


def _missing(names: set[str], page: str) -> list[str]:
    return sorted(name for name in names if f"`{name}`" not in page)


def test_settings_are_complete() -> None:
    """Every setting is listed by its keyword, with its reason."""
    page = settings_page.page()
    assert [each.name for each in fields(Settings) if f"\n### {each.name}\n\n`binshift." not in page] == []


@pytest.mark.parametrize("plural", [path.stem for path in resource_page.CRDS.glob("*.yaml")])
def test_fields_are_complete(plural: str) -> None:
    """Every field of spec and status of each resource is listed."""
    page = resource_page.page(plural)
    definition = yaml.safe_load((resource_page.CRDS / f"{plural}.yaml").read_text(encoding="utf-8"))
    crd = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    tops = {f"{top}.{name}" for top in ("spec", "status") for name in crd["properties"][top]["properties"]}
    assert _missing(tops, page) == []


def test_nested_fields_are_complete() -> None:
    """Nested fields are listed, too, and rules with their messages."""
    page = resource_page.page()
    nested = {"spec.application.env[].valueFrom.secretKeyRef.key", "spec.sparkConf", "status.conditions[].reason"}
    assert _missing(nested, page) == []
    assert "give exactly one of location and claimName" in page


def test_calls_are_complete() -> None:
    """Every call of the API is listed, and each link to an object leads to its heading."""
    page = http_page.page()
    paths = {path for path in http_page.document()["paths"] if not path.startswith(http_page.OF_ONE_QUERY)}
    assert [path for path in paths if f" {path}\n" not in page] == []
    headings = {name.lower() for name in re.findall(r"^### (\w+)", page, re.MULTILINE)}
    assert set(re.findall(r"\(#(\w+)\)", page)) - headings == set()


def test_metrics_and_alerts_are_complete() -> None:
    """Every metric and every alert is listed."""
    families = [*declared.of_runtime(), *declared.of_operator()]
    names = {each.name + ("_total" if each.type == "counter" else "") for each in families}
    assert _missing(names, metrics_page.page()) == []
    alerts = {rule["alert"] for rule in metrics_page.rules() if "alert" in rule}
    assert set(re.findall(r"^## (\w+)", metrics_page.alerts(), re.MULTILINE)) == alerts
    assert "{{" not in metrics_page.alerts()


def test_commands_are_complete() -> None:
    """The help of every command of `binshift` and of the plugin is printed."""
    page = reference.PAGES["docs/reference/commands.md"]()
    assert [
        name for name in cli.COMMANDS if f"### binshift {name}\n\n```text\nusage: binshift {name} " not in page
    ] == []
    assert [name for name in plugin.COMMANDS if f"usage: {plugin.PROGRAM} {name} " not in page] == []


def test_python_names_are_complete() -> None:
    """The public names of the package are the names that its section lists."""
    page = reference.PAGES["docs/reference/python.md"]()
    assert [name for name in binshift.__all__ if f"          - {name}\n" not in page] == []
    assert re.findall(r"^::: (\S+)$", page, re.MULTILINE) == re.findall(r"^## (\S+)$", page, re.MULTILINE)


def test_glossary_is_that_of_the_architecture() -> None:
    """The glossary has a page of its own with the same terms."""
    assert "| bin |" in reference.glossary()
    assert "## " not in reference.glossary().removeprefix("# ")


def test_overview_links_to_every_generated_page() -> None:
    """The page about the reference links to all generated pages by their titles."""
    contents = reference.contents()
    assert [name for name in reference.PAGES if f"]({Path(name).name})" not in contents] == []
