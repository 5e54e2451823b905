"""Checks that nothing of the product is state of a module, but for the few that `KEPT` lists with their reasons.

State that a module holds has no owner: it is shared by all queries and tests of a process, and nothing ends it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = (ROOT / "runtime" / "binshift", ROOT / "operator" / "binshift_operator")

MUTABLE = {
    *("Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "bytearray", "count", "cycle"),
    *("defaultdict", "deque", "default_rng", "local", "ContextVar", "Event", "Lock", "RLock", "Queue", "SimpleQueue"),
}
"""Constructors of what changes."""
EMPTY = {"dict", "list", "set"}
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("setdefault", "update"),
}
CACHES = {"cache", "lru_cache"}
CONSTANT = {"Decoder", "getLogger"}
"""Calls that make what does not change, or is the standard library's to keep."""

KEPT = {
    "binshift/failpoints.py _folder": "a constant: the environment as the process began",
    "binshift/java.py java_home": "a cache: asking a Java for its version starts a process",
    "binshift/log/records/binsets.py _memory": "a cache with a limit: manifests and records repeat the same sets of bins",
    "binshift/log/storage/object_store.py open_memory": "a memory:// URL names the store of a process, as a path names a directory",
    "binshift/spark/frontend/host.py _hosts": "PySpark's calls that start a query have no argument for its host",
    "binshift/spark/frontend/neighbours.py _applications": "queries that start by themselves share only their application",
    "binshift/spark/frontend/neighbours.py _lock": "of _applications",
    "binshift/spark/session/jvm.py _installed": "classes are compiled once an application, and end with it",
    "binshift/spark/session/jvm.py _lock": "of _installed",
    "binshift/spark/session/progress.py _published": "a listener gets nothing but a query's id from Spark; held weakly",
    "binshift/spark/stages/vectorised.py _MADE": "Spark's plan has only the number of a function that its driver keeps",
    "binshift/spark/stages/vectorised.py _NUMBERS": "of _MADE",
    "binshift/spark/tasks/task.py freeze_gc": "once a process: the collector is the process's",
    "binshift/spark/tasks/task.py kept_of": "a task has no owner but its Python process, which outlives it",
    "binshift/spark/tasks/task.py operator_from": "as kept_of",
    "binshift/spark/tasks/task.py storage_of": "as kept_of",
    "binshift/spark/tasks/user_rows.py _row_class": "a cache with a limit: every epoch has a new processor, and a class takes long to make",
    "binshift/store/bins/status.py _read": "a cache: every transaction reads a status, which only epochs and rounds change",
    "binshift/store/engine/run_listing.py _decoded": "a cache: every transaction reads the listing of runs",
    "binshift/store/bins/status.py bins_of": "a cache, as _read",
    "binshift/store/engine/lmdb_place.py places": "a process must open an LMDB file only once",
    "binshift/store/engine/row_checksums.py _rng": "draws this module's constants, and is not used again",
}
"""State of modules: the reason why it is no field of an owner."""


def state(text: str) -> Iterator[str]:
    """The names of a file's module-level state: what changes, what a function rebinds, and what functions remember.

    A name in small letters also counts if a call made its value: it is no constant, and no type.
    """
    tree = ast.parse(text)
    changed = set(_changed(tree))
    bodies = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    shared = [each for body in bodies for each in body if isinstance(each, ast.Assign)]  # fields have annotations
    yield from (name for node in shared for name, value in _assigned(node) if _is_mutable(value))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(_called(each) in CACHES for each in node.decorator_list):
            yield node.name
        for name, value in _assigned(node):
            variable = name.islower() and isinstance(value, ast.Call) and _called(value) not in CONSTANT
            if name in changed or variable or _is_mutable(value):
                yield name


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets, value = [node.target], node.value
    else:
        return
    for each in targets:
        if isinstance(each, ast.Name):
            yield each.id, value


def _is_mutable(value: ast.expr) -> bool:
    """Whether it is an empty container, which only makes sense if it is filled, or a constructor's that is for changing."""
    if isinstance(value, ast.Dict | ast.List):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    called = _called(value) if isinstance(value, ast.Call) else ""
    return called in MUTABLE or (called in EMPTY and isinstance(value, ast.Call) and not value.args)


def _called(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _changed(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield _called(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            yield _called(node.func.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
            yield from (_called(each) for each in node.args[:1])


def test_modules_have_no_state_but_what_is_listed() -> None:
    """What a module, or a class for all its objects, remembers is in `KEPT` with a reason, and nothing else exists."""
    files = [(path, product.parent) for product in PRODUCTS for path in sorted(product.rglob("*.py"))]
    found = {
        f"{path.relative_to(root).as_posix()} {name}"
        for path, root in files
        for name in state(path.read_text(encoding="utf-8"))
    }
    assert sorted(found ^ KEPT.keys()) == []


@pytest.mark.parametrize(
    "text",
    [
        "x: dict[str, int] = {}",
        "X = []",
        "x = deque[int](maxlen=3)",
        "X = WeakValueDictionary()",
        "X = {1: 2}\ndef f(): X[3] = 4",
        "X = [1]\ndef f(): X.append(2)",
        "X = map(f, y)\ndef g(): return next(X)",
        "x = 0\ndef f():\n    global x\n    x = 1",
        "x = Registry()",
        "@functools.lru_cache(maxsize=4)\ndef f(): pass",
        "class A:\n    x = {}",
    ],
)
def test_state_is_found(text: str) -> None:
    """Each sample has one name that the rule finds."""
    assert len(set(state(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "X = {1: 2}",
        "X: Final = Route.initial(4, [0])",
        "log = logging.getLogger(__name__)",
        "Worker = NewType('Worker', int)",
        "def f():\n    x = {}\n    x[1] = 2",
        "class A:\n    x: dict[str, int] = field(default_factory=dict)",
        "@functools.cached_property\ndef f(): pass",
    ],
)
def test_constants_are_no_state(text: str) -> None:
    """Tables, types, loggers and what a call or an object holds are not found."""
    assert list(state(text)) == []
