"""Keeps the language of the project plain: no text, Python included, has a banned form.

The forms, their replacements and the extraction of prose are in `vocabulary`. This module checks the forms against the files, and
the extraction against small samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import vocabulary

TEXTS = vocabulary.texts()


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_plain(name: str) -> None:
    """A document, chart, resource definition, alert, dashboard, help text or Python file has no banned form."""
    assert vocabulary.hits(TEXTS[name]) == []


def test_every_document_is_covered() -> None:
    """Markdown and Python files of all folders are among the checked texts, and so are the chart's texts."""
    expected = {
        "README.md",
        "docs/guides/install.md",
        "e2e/cluster/README.md",
        "runtime/examples/flights/README.md",
        "Makefile",
        "runtime/binshift/model.py",
        "operator/binshift_operator/model/__init__.py",
        "e2e/conftest.py",
        "scripts/draw_dashboard.py",
        ".github/workflows/ci.yml",
        ".github/pull_request_template.md",
    }
    expected |= {f"charts/binshift/{name}" for name in ("values.yaml", "rules/operator.yaml", "templates/NOTES.txt")}
    expected |= {"crds/streamingdataflows.yaml", "charts/binshift/dashboards/dataflow.json", "docs/decisions/README.md"}
    assert expected - TEXTS.keys() == set()


@pytest.mark.parametrize(
    ("prose", "text", "found"),
    [
        (vocabulary.prose_markdown, "The operator tells `who may` look.\n```sh\nsay x\n```\n", ["tells", "look"]),
        (vocabulary.prose_markdown, "See [the log](https://example.com/looks).\n", []),
        (
            vocabulary.prose_yaml,
            "a: 1  # as ever\nb: {description: Asked for by nobody.}\n",
            ["as ever", "Asked for", "nobody"],
        ),
        (vocabulary.prose_yaml, "# {{- if .Values.said }}\na: {{ include }}\n# anew\n", ["said", "anew"]),
        (vocabulary.prose_json, json.dumps({"panels": [{"title": "Looks", "expr": "say"}]}), ["Looks"]),
        (vocabulary.prose_template, 'A person {{ include "said" . }} reads.', ["A person"]),
        (vocabulary.prose_makefile, "x: y ## say it\n\tlook\n", ["say"]),
        (
            vocabulary.prose_python,
            'def look():  # anew, not `said`\n    """Tells ``said``."""\n    return "told", f"at rest {x}"\n',
            ["Tells", "anew", "at rest"],
        ),
    ],
)
def test_prose_is_found(prose: Callable[[str], str], text: str, found: list[str]) -> None:
    """Prose is extracted from each kind of file without code, addresses and directives."""
    assert sorted(form for form, _ in vocabulary.hits(prose(text))) == sorted(found)


@pytest.mark.parametrize(
    "good", ["A lookup.", "There is a limit.", "Keywords and passwords.", "Wordsworth", "If there are executors, wait."]
)
def test_plain_words_pass(good: str) -> None:
    """Standard terms that contain a banned form are permitted."""
    assert vocabulary.hits(good) == []
