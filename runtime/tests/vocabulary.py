"""The vocabulary of the project's texts: forms that are not used, and where prose is found in each kind of file.

Each form is a pattern with a suggestion. `prose_*` functions return the prose of a file without code, so that names of commands
and fields are never counted. In Python these are docstrings, messages and comments. `python runtime/tests/vocabulary.py` lists
every hit.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

BANNED: Mapping[str, str] = {
    r"tell|tells|told|telling": "report, show, name, notify",
    r"say|says|said|saying": "state, show, report, set, log",
    r"look|looks|looked|looking(?! up)": "check, inspect, read, see",
    r"who may": "users that can, with permission to",
    r"may not": "must not, cannot, is not allowed to",
    r"goes on|go on|went on": "continues",
    r"stays? away": "is lost, is not registered",
    r"anew|afresh": "again, new, rebuild",
    r"at rest": "idle, suspended, between changes",
    r"words": "text, message, error, arguments",
    r"a person": "you, a user, manual action",
    r"whoever|somebody|nobody|anybody": "the caller, a user, another process, no ...",
    r"by now": "already, now",
    r"as ever|ever after|for ever": "as before, always, forever",
    r"again and again": "repeatedly",
    r"lately": "recently",
    r"mend|mends|mended": "fix, repair",
    r"asks? for|asked for|asking for": "request, require",
    r"what there is": "list, all ...",
    r"(?:is|are|was|were|be) there(?=[.,;:)]| already| and| or)": "exists, is present, is available, is running",
    r"of (?:ours|yours|one's own)": "our, your, its own",
    r"of (?:Py)?Spark's(?= (?:that|which|with|of)\b|[.,;:)])": "Spark",
    r"all the same": "anyway, nevertheless",
    r"those (?:who|that|whose)": "the ... that",
    r"shall": "must, should, will",
    r"beside": "next to, in addition to, besides",
    r"without(?=[,;.:])": "otherwise, if it is not set",
}
"""Form (a regular expression of whole words, in any case) -> what to write instead."""
_PATTERNS = {re.compile(rf"\b(?:{form})(?!\w)", re.IGNORECASE): instead for form, instead in BANNED.items()}


def hits(prose: str) -> list[tuple[str, str]]:
    """Every banned form in a text, with what to write instead."""
    text = " ".join(prose.split())
    return [(found[0], instead) for pattern, instead in _PATTERNS.items() for found in pattern.finditer(text)]


def prose_markdown(text: str) -> str:
    """Sentences, tables and headings; code, addresses and HTML comments are left out."""
    for code in (r"^ *```.*?^ *```", r"<!--.*?-->", r"`[^`\n]*`", r"(?<=\])\([^)\n]*\)"):
        text = re.sub(code, " ", text, flags=re.MULTILINE | re.DOTALL)
    return text


def prose_yaml(text: str) -> str:
    """Comments, and every `description`, `summary` and `message` of the documents; of a template the comments only."""
    found = re.findall(r"(?:^|\s)#(.*)", text)
    if "{{-" not in text and "{{ include" not in text:
        found += [each for document in yaml.safe_load_all(text) for each in _described(document)]
    return _without_code("\n".join(found))


def prose_json(text: str) -> str:
    """Titles, descriptions and names of lines of a dashboard."""
    return _without_code("\n".join(_described(json.loads(text))))


def prose_template(text: str) -> str:
    """The text of a template, without its directives."""
    return _without_code(re.sub(r"\{\{.*?\}\}", " ", text, flags=re.DOTALL))


def prose_makefile(text: str) -> str:
    """Help texts and comments."""
    return "\n".join(re.findall(r"(?:^|\s)#+@?(.*)", text, re.MULTILINE))


def prose_python(text: str) -> str:
    """Docstrings, every other string with a space in it (messages and help texts), and comments."""
    strings = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    prose = [each for each in strings if isinstance(each, str) and " " in each.strip()]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    prose += [token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT]
    return _without_code("\n".join(re.sub(r"``.*?``", " ", each, flags=re.DOTALL) for each in prose))


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", " ", text)


def _described(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        keys = ("description", "summary", "message", "title", "legendFormat")
        yield from (node[key] for key in keys if isinstance(node.get(key), str))
    below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    for each in below:
        yield from _described(each)


TEXTS: Mapping[str, Callable[[str], str]] = {
    "*.md": prose_markdown,
    ".github/**/*.md": prose_markdown,
    ".github/**/*.yml": prose_yaml,
    ".pre-commit-config.yaml": prose_yaml,
    "docs/**/*.md": prose_markdown,
    "charts/**/*.md": prose_markdown,
    "e2e/**/*.md": prose_markdown,
    "runtime/examples/**/*.md": prose_markdown,
    "crds/*.yaml": prose_yaml,
    "charts/binshift/**/*.yaml": prose_yaml,
    "docs/**/*.yaml": prose_yaml,
    "runtime/examples/**/*.yaml": prose_yaml,
    "charts/binshift/dashboards/*.json": prose_json,
    "charts/binshift/templates/*.txt": prose_template,
    "Makefile": prose_makefile,
    "conftest.py": prose_python,
    "charts/**/*.py": prose_python,
    "e2e/**/*.py": prose_python,
    "operator/**/*.py": prose_python,
    "runtime/**/*.py": prose_python,
    "scripts/**/*.py": prose_python,
    "mkdocs.yml": prose_yaml,
}
"""Every text of the project, by where it is; none of them has a banned form."""
OWN = ("vocabulary.py", "test_vocabulary.py")
"""These two quote the forms."""


def texts() -> dict[str, str]:
    """The prose of every text, by path."""
    return {
        path.relative_to(ROOT).as_posix(): prose(path.read_text(encoding="utf-8"))
        for pattern, prose in TEXTS.items()
        for path in sorted(ROOT.glob(pattern))
        if path.name not in OWN
    }


def main() -> int:
    """List the hits; the exit status is 1 if there are any."""
    found = [(name, *each) for name, prose in texts().items() for each in hits(prose)]
    sys.stdout.writelines(f"{name}: {form!r}; write: {instead}\n" for name, form, instead in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
