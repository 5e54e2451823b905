"""Decoders of msgspec are made while their module is imported.

msgspec learns a type's fields when the type is first decoded, and shows other threads the half-learnt type meanwhile (0.22): two
threads that decode a type for the first time, such as two that begin to load bins, end the process by SIGSEGV. A decoder learns its type
when it is made, and only one thread imports a module.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = (ROOT / "runtime" / "binshift", ROOT / "operator" / "binshift_operator")
FILES = sorted(path for product in PRODUCTS for path in product.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

FIRST_DECODES = """
import importlib, sys, threading
from binshift.log.files import trailer

sys.setswitchinterval(1e-6)
for _ in range(100):
    importlib.reload(trailer)
    tail = trailer.encode_trailer([])
    given = "f", tail, trailer.digest(tail), len(tail)
    start = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (start.wait(), trailer.decode_trailer(*given))) for _ in range(8)]
    [each.start() for each in threads]
    [each.join() for each in threads]
print("decoded")
"""


def late_decoders(text: str) -> Iterator[str]:
    """A type is first decoded while the program runs, perhaps by two threads."""
    tree = ast.parse(text)
    within = {id(each) for node in ast.walk(tree) if isinstance(node, FUNCTIONS) for each in ast.walk(node)}
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in {"msgspec.convert", "msgspec.json.decode", "msgspec.msgpack.decode"}:
            yield f"line {node.lineno}: calls {called}; make a decoder in the module"  # type: ignore[attr-defined]
        elif called.startswith("msgspec.") and called.endswith(".Decoder") and id(node) in within:
            yield f"line {node.lineno}: makes a decoder when it runs; make it in the module"  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_types_are_decoded_by_the_modules_decoders(path: Path) -> None:
    """The product decodes every type with a decoder that its module made."""
    assert list(late_decoders(path.read_text(encoding="utf-8"))) == []


def test_threads_can_decode_a_type_for_the_first_time_together() -> None:
    """A process in which eight threads read their first data file at once survives."""
    ended = subprocess.run([sys.executable, "-c", FIRST_DECODES], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "decoded\n"), ended.stderr


@pytest.mark.parametrize(
    "text",
    [
        "msgspec.json.decode(data, type=Commit)",
        "msgspec.convert(found, Commit)",
        "def read(data):\n    return msgspec.msgpack.Decoder(Commit).decode(data)",
    ],
)
def test_rule_finds_the_problem(text: str) -> None:
    """The rule reports exactly one problem in a sample that has one."""
    assert len(list(late_decoders(text))) == 1
