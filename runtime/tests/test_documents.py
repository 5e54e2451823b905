"""Checks documents and scripts automatically: snippets, links, targets, the code map, the licence, locks."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = (".github", "charts", "crds", "docs", "e2e", "operator", "runtime")
FILES = [*ROOT.glob("*.md"), *(path for top in TOPS for path in (ROOT / top).rglob("*.md"))]
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in FILES)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PACKAGE = ROOT / "runtime" / "binshift"
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


SNIPPETS = [
    pytest.param(language, code, id=f"{name}-{number}-{language}")
    for name in DOCUMENTS
    for number, (language, code) in enumerate(FENCE.findall(_text(name)), start=1)
]


def problem_in(language: str, code: str) -> str:
    """The error of the language's own parser for ``code``; empty if it has none, or if it is another language."""
    if language == "python":
        try:
            ast.parse(code)
        except SyntaxError as error:
            return str(error)
    if language == "sh":
        return subprocess.run(["sh", "-n"], input=code, capture_output=True, text=True, check=False).stderr
    return ""


@pytest.mark.parametrize(("language", "code"), SNIPPETS)
def test_snippet_is_right(language: str, code: str) -> None:
    """Every python and sh block of a document is syntactically right."""
    assert problem_in(language, code) == ""


@pytest.mark.parametrize("name", [".ci/run", *(f"scripts/{path.name}" for path in (ROOT / "scripts").glob("*.sh"))])
def test_script_is_right(name: str) -> None:
    """Every script is executable and syntactically right for the shell its first line names."""
    shell = _text(name).splitlines()[0].rsplit(maxsplit=1)[-1].removeprefix("#!")
    assert (ROOT / name).stat().st_mode & 0o111
    assert subprocess.run([shell, "-n", ROOT / name], capture_output=True, text=True, check=False).stderr == ""


def test_notes_name_modules_that_exist() -> None:
    """The last column of the notes on Spark leads to the code."""
    named = re.findall(r"`([\w/]+\.(?:py|java))`", _text("docs/notes-on-spark.md"))
    java = {path.name for path in PACKAGE.rglob("*.java")}
    assert len(named) > 20
    assert [name for name in named if not (PACKAGE / name).exists() and name not in java] == []


@pytest.mark.parametrize(("language", "code"), [("python", "x = load(..."), ("sh", "if true; echo")])
def test_wrong_snippet_is_found(language: str, code: str) -> None:
    """A block with a syntax error is reported."""
    assert problem_in(language, code) != ""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """Every link to a file of this repository names one that exists."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", _text(name))
    assert [target for target in targets if not ((ROOT / name).parent / target).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name: str) -> None:
    """Every `make x` in a document is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z0-9-]+):", _text("Makefile"), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z0-9 |-]+)", _text(name), re.MULTILINE)
    assert {word for line in named for word in re.findall(r"[a-z0-9-]+", line)} - targets == set()


def test_code_map_is_whole() -> None:
    """ARCHITECTURE.md names every module and package of the runtime."""
    named = set(re.findall(r"`(\w+)`", _text("ARCHITECTURE.md")))
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(modules - named - {"__init__", "__main__"}) == []


@pytest.mark.parametrize("number", range(1, 9))
def test_each_invariant_is_named_by_a_test(number: int) -> None:
    """ARCHITECTURE.md states the invariants I1 to I8, and the docstring of at least one test names each."""
    assert f"- **I{number} " in _text("ARCHITECTURE.md")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "runtime" / "tests").rglob("test_*.py")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    named = [each.name for each in functions if re.search(rf"\bI{number}\b", ast.get_docstring(each) or "")]
    assert any(name.startswith("test_") and name != "test_each_invariant_is_named_by_a_test" for name in named)


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def test_decisions_are_numbered_and_listed() -> None:
    """Decisions have consecutive numbers, and the index links each page under its title."""
    index = _text("docs/decisions/README.md")
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]
    rows = [f"| [{path.name[:4]}]({path.name}) | {path.read_text().splitlines()[0][8:]} |" for path in DECISIONS]
    assert [row for row in rows if row not in index] == []
    assert "\n".join(rows) in index  # one table


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_decision_is_complete(path: Path) -> None:
    """A decision has a status with a date, context, decision and consequence, each with text."""
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^\*\*Status:\*\* (Accepted|Superseded by \d{4}), \d{4}-\d\d-\d\d\.$", text, re.MULTILINE)
    sections = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)[1:]
    assert sections[::2] == ["Context", "Decision", "Consequence"]
    assert all(each.strip() for each in sections[1::2])


def test_licence_is_the_whole_text() -> None:
    """LICENSE is the Apache License 2.0, from its title to its end, and pyproject.toml names the same licence."""
    text = _text("LICENSE")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in _text("pyproject.toml")


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", ".gitignore", ".editorconfig", ".ci/run"),
        *("CODE_OF_CONDUCT.md", "RELEASE.md", "SECURITY.md", ".github/pull_request_template.md"),
        *("operator/binshift_operator/py.typed", "runtime/binshift/py.typed"),
    ],
)
def test_file_is_there(name: str) -> None:
    """The files that every repository needs exist."""
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_is_whole_and_names_no_place(path: Path) -> None:
    """A lock file pins every package with hashes and has neither an index address nor a path of a machine."""
    text = path.read_text(encoding="utf-8")
    entries = re.findall(r"^[A-Za-z].*?(?=^[A-Za-z]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert entries != []
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert re.search(r"://|--(extra-)?index|--find-links| /", text) is None


def _pins(name: str) -> set[str]:
    return set(re.findall(r"^[a-z][^ ;]*==[^ ;]+", _text(f"requirements/{name}.txt"), re.MULTILINE))


@pytest.mark.parametrize("name", ["runtime", "operator"])
def test_images_get_what_is_tested(name: str) -> None:
    """The images' lock files hold only versions that the checks ran with."""
    assert _pins(name)
    assert _pins(name) - _pins("dev") == set()
