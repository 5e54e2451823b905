"""Checks the structure of the code: small files, small functions, pure core modules, no leftovers.

Each rule is a pure function from a file's text to the problems in it, so that the rules themselves are tested here on
samples of a few lines. Import-linter checks the layers of imports (pyproject.toml), and ruff checks the form.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG_FILES = Path(__file__).with_name("long_files.json")
TOPS = ("charts", "e2e", "operator", "runtime", "scripts")
FILE_LINES_MAX = 300
FILE_LINES_KEPT = 250
"""Files of more lines are listed with their length in `long_files.json`, and must not grow."""
FUNCTION_LINES_MAX = 40

PURE = {
    *("autoscale", "backoff", "binset", "encryption", "epoch_costs", "errors", "hotkeys", "invariants", "load"),
    *("migration", "model", "pacing", "planner", "replicas", "rescale", "routing", "setting_values", "settings"),
    *("memory", "ports", "seating", "skew", "strategies", "worker_need", "decide", "status"),
}
"""Modules (or packages) that only compute; the last two are the operator's."""
PURE_IMPORTS = {"numpy", *sys.stdlib_module_names} - {
    *("asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil"),
    *("socket", "subprocess", "tempfile", "threading", "time"),
}
"""What a pure module may import, besides other pure modules: nothing with access to time, randomness or I/O."""
PURE_CALLS_BANNED = {"eval", "exec", "input", "open", "print"}

LEFTOVER = re.compile("|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b")))
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|commons?|misc|manager)(_|$)")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def long_file(text: str) -> Iterator[str]:
    """The file has too many lines to keep in mind."""
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines; split it (at most {FILE_LINES_MAX})"


def long_functions(text: str) -> Iterator[str]:
    """A function is longer than a screen; the docstring does not count."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, FUNCTIONS):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"line {node.lineno}: {node.name} has {lines} lines; split it (at most {FUNCTION_LINES_MAX})"


def missing_docstring(text: str) -> Iterator[str]:
    """A module does not state what it owns; an empty one needs no docstring."""
    if text.strip() and not ast.get_docstring(ast.parse(text)):
        yield "no module docstring: state what the module owns, what it must never do, and why it is done this way"


def leftovers(text: str) -> Iterator[str]:
    """There are notes to self in comments and strings."""
    for number, line in enumerate(text.splitlines(), start=1):
        if LEFTOVER.search(line):
            yield f"line {number}: {line.strip()!r}: do it, or leave it out"


def broad_excepts(text: str) -> Iterator[str]:
    """A handler swallows everything without a reason; one that ends in a ``raise`` swallows nothing."""
    comments = _comments(text)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler) or not _is_broad(node.type):
            continue
        reraises = isinstance(node.body[-1], ast.Raise)
        has_reason = any(number in comments for number in range(node.lineno - 1, node.body[0].lineno + 1))
        if not reraises and not has_reason:
            yield f"line {node.lineno}: a broad except needs a comment with the reason; or name the error"


def _is_broad(kind: ast.expr | None) -> bool:
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in {"BaseException", "Exception"}) for name in names
    )


def _comments(text: str) -> set[int]:
    """The lines with a comment that is not an instruction to a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = (t for t in tokens if t.type == tokenize.COMMENT)
    return {t.start[0] for t in found if not re.fullmatch(r"#\s*(noqa|type:|pragma).*", t.string)}


def impurities(text: str) -> Iterator[str]:
    """An import or call gives a pure module access to more than its arguments."""
    for node in ast.walk(ast.parse(text)):
        for line, name in _imported(node):
            package, _, inside = name.partition(".")
            own = package in {"binshift", "binshift_operator"} and inside.partition(".")[0] in PURE
            if not own and package not in PURE_IMPORTS:
                yield f"line {line}: imports {name}; a pure module takes what it needs as an argument"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in PURE_CALLS_BANNED or re.match(r"(np|numpy)\.random\b", called):
                yield f"line {node.lineno}: calls {called}; a pure module only computes"


def _imported(node: ast.AST) -> list[tuple[int, str]]:
    """The line and the module of each import."""
    if isinstance(node, ast.Import):
        return [(node.lineno, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        names = [f"{module}.{alias.name}" for alias in node.names] if module.startswith("binshift") else [module]
        return [(node.lineno, name) for name in names]
    return []


def untold_tests(text: str) -> Iterator[str]:
    """A test function does not state in one sentence what must hold."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS) and node.name.startswith("test_"):
            docstring = ast.get_docstring(node) or ""
            if not re.search(r"[.?!]$", docstring.split("\n\n")[0].rstrip()):
                yield f"line {node.lineno}: {node.name} needs a docstring: one sentence that states what must hold"


FILES = sorted([ROOT / "conftest.py", *(path for top in TOPS for path in (ROOT / top).rglob("*.py"))])
EVERYWHERE: list[Callable[[str], Iterator[str]]] = [
    *(long_file, long_functions, missing_docstring, leftovers, broad_excepts),
]


def _rules_for(path: Path) -> list[Callable[[str], Iterator[str]]]:
    rules = list(EVERYWHERE)
    parts = path.relative_to(ROOT).with_suffix("").parts
    if len(parts) > 2 and parts[1] in {"binshift", "binshift_operator"} and parts[2] in PURE:
        rules.append(impurities)
    if path.name.startswith("test_"):
        rules.append(untold_tests)
    return rules


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_file_is_tidy(path: Path) -> None:
    """Every Python file keeps every rule that applies to it."""
    text = path.read_text(encoding="utf-8")
    assert [problem for rule in _rules_for(path) for problem in rule(text)] == []


def test_long_files_do_not_grow() -> None:
    """A file has at most `FILE_LINES_KEPT` lines, or no more than `long_files.json` has for it.

    After a split or a rename, change its line there; a new long file is split instead.
    """
    kept: dict[str, int] = json.loads(LONG_FILES.read_text(encoding="utf-8"))
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    assert {name: n for name, n in lengths.items() if n > max(FILE_LINES_KEPT, kept.get(name, 0))} == {}
    assert sorted(kept.keys() - lengths.keys()) == []


def test_names_describe_the_contents() -> None:
    """No file or folder has a name that fits any content."""
    parts = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert sorted(filter(EMPTY_NAMES.search, parts)) == []


def test_import_roots_are_no_packages() -> None:
    """No file makes `operator` or `runtime` a package: the first would shadow the standard library's module."""
    wrong = ("operator/__init__.py", "operator.py", "runtime/__init__.py", "runtime.py")
    assert [name for name in wrong if (ROOT / name).exists()] == []


def test_test_files_have_names_of_their_own() -> None:
    """Test file names are unique, because pytest imports all of them as top-level modules."""
    names = Counter(path.name for path in FILES if path.name.startswith("test_"))
    assert {name for name, count in names.items() if count > 1} == set()


def _lines(count: int) -> str:
    return "\n".join(f"    x = {i}" for i in range(count))


BAD = {
    "long file": (long_file, "#\n" * 301),
    "long function": (long_functions, f"def f():\n{_lines(40)}\n"),
    "no docstring": (missing_docstring, "x = 1\n"),
    "leftover": (leftovers, "x = 1  # " + "TO" + "DO later\n"),
    "bare except": (broad_excepts, "try:\n    f()\nexcept:\n    pass\n"),
    "broad except in a tuple": (broad_excepts, "try:\n    f()\nexcept (OSError, Exception):\n    pass\n"),
    "broad except, tool comment": (broad_excepts, "try:\n    f()\nexcept Exception:  # noqa: BLE001\n    pass\n"),
    "clock": (impurities, "import time\n"),
    "third party": (impurities, "from pyarrow import compute\n"),
    "impure module": (impurities, "from binshift.store.bins.binstore import BinStore\n"),
    "impure module by package": (impurities, "from binshift import entries\n"),
    "print": (impurities, "print(1)\n"),
    "chance": (impurities, "np.random.default_rng()\n"),
    "test without docstring": (untold_tests, "def test_x(): pass\n"),
    "test without sentence": (untold_tests, 'async def test_x():\n    """Foo"""\n'),
}
GOOD = {
    "file": (long_file, "#\n" * 300),
    "function": (long_functions, f'def f():\n    """Why.\n\n    More."""\n{_lines(39)}\n'),
    "empty module": (missing_docstring, ""),
    "explained except": (
        broad_excepts,
        "try:\n    f()\nexcept Exception:\n    # The outermost frame of the process.\n    pass\n",
    ),
    "cleanup": (broad_excepts, "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"),
    "wrapping": (broad_excepts, "try:\n    f()\nexcept Exception as error:\n    raise Failed() from error\n"),
    "narrow except": (broad_excepts, "try:\n    f()\nexcept OSError:\n    pass\n"),
    "pure": (
        impurities,
        "import numpy as np\nfrom binshift import model\nfrom binshift.routing import Route\nnp.zeros(1)\n",
    ),
    "test": (untold_tests, 'def test_x():\n    """What must hold, at some\n    length."""\n'),
}


@pytest.mark.parametrize("name", BAD)
def test_rule_finds_the_problem(name: str) -> None:
    """Each rule reports exactly one problem in a sample that has one."""
    rule, text = BAD[name]
    assert len(list(rule(text))) == 1


@pytest.mark.parametrize("name", GOOD)
def test_rule_lets_good_code_pass(name: str) -> None:
    """No rule reports a problem in a sample just inside its limit."""
    rule, text = GOOD[name]
    assert list(rule(text)) == []
