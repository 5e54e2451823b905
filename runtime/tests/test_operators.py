"""The state operators alone: on one memory store, without protocol and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stores import commit_epoch

from binshift.entries import merge_last_wins
from binshift.errors import UserFunctionFailed
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Term
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, Operator, states_changed
from binshift.operators.expiry import EXPIRY_COLUMN, expiry_keys
from binshift.operators.grouping import bin_groups
from binshift.operators.merge import Merge, MergeSpec
from binshift.operators.vectorised import StateFunction, VectorisedState
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.memory_store import MemoryStore

BINS = BinSet(range(4))
KEYS = pa.schema([("k0", pa.string())])
BUFFERS = pa.schema([("p0", pa.int64())])
COUNT = (MergeSpec(Merge.COUNT, ("p0",)),)


class Runs:
    """Runs consecutive epochs of an operator on one store."""

    def __init__(
        self, operator: Operator, read: Callable[[pa.RecordBatch], list[Any]] = pa.RecordBatch.to_pylist
    ) -> None:
        self.operator = operator
        self.read = read
        self.store = BinStore(MemoryStore(), bins=4)
        self.stamp = GENESIS
        self.epoch = Epoch(-1)
        fence = Fence(Term(1), Epoch(0), 0)
        self.store.install_copies(fence, BINS, Epoch(-1), [], begin=True, done=True)
        self.watermark = 0
        self.late = 0

    def run(self, batches: list[pa.RecordBatch], watermark: int = 0) -> list[Any]:
        """One epoch: its output rows, as ``read`` made them."""
        self.epoch = Epoch(self.epoch + 1)
        context = EpochContext(self.epoch, 0, watermark, self.watermark, BINS)
        self.watermark = watermark
        with self._state() as state:
            rows = [row for out in self.operator.run(iter(batches), state, context) for row in self.read(out)]
        self.late = state.rows_late
        after = Stamp(self.epoch, f"1.{self.epoch}.0.0")
        fence = Fence(Term(1), self.epoch, 0)
        changes = [merge_last_wins(state.changes)]
        commit_epoch(self.store, fence, expect=self.stamp, stamp=after, owned=BINS, changes=changes, undo=True)
        self.stamp = after
        return rows

    @contextmanager
    def _state(self) -> Iterator[EpochState]:
        with self.store.reader() as reader:
            yield EpochState(reader)

    def keys_left(self) -> int:
        """Rows in the store, including the index."""
        with self.store.reader() as reader:
            return sum(part.num_rows for b in BINS for part in reader.scan(b))


def counted(rows: list[tuple[int, str | None, int, int | None]]) -> pa.RecordBatch:
    """(bin, key, count, expiry) as the JVM delivers them."""
    bins, keys, counts, expiries = zip(*rows, strict=True)
    columns = {
        BIN_COLUMN: pa.array(bins, pa.int32()),
        "k0": pa.array(keys, pa.string()),
        "p0": pa.array(counts, pa.int64()),
        EXPIRY_COLUMN: pa.array(expiries, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_update_mode_emits_every_changed_group_with_its_total() -> None:
    """A null key is a key; a group without changes is not emitted."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE))
    runs.run([counted([(0, "a", 2, None), (1, None, 1, None)])])
    assert runs.run([counted([(1, None, 4, None)])]) == [{"k0": None, "p0": 5}]


def test_append_mode_emits_a_group_once_when_it_is_over() -> None:
    """A group is emitted and deleted, with its index row, in the first epoch whose watermark is at or after its expiry."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.APPEND, expires=True))
    assert runs.run([counted([(0, "a", 2, 100), (0, "b", 1, 200)])]) == []
    assert runs.run([counted([(0, "a", 3, 100)])], watermark=99) == []
    assert runs.run([], watermark=100) == [{"k0": "a", "p0": 5}]
    assert runs.run([], watermark=100) == []
    assert runs.keys_left() == 2
    assert runs.run([], watermark=500) == [{"k0": "b", "p0": 1}]
    assert runs.keys_left() == 0


def test_late_groups_are_dropped_and_counted() -> None:
    """Rows at or before the previous watermark are late; rows of a group without expiry never are."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE, expires=True))
    late = counted([(0, "a", 1, 99), (1, "b", 1, 100), (1, "c", 1, 101), (2, "d", 1, None)])
    runs.run([], watermark=100)
    assert [row["k0"] for row in runs.run([late], watermark=100)] == ["c", "d"]
    assert runs.late == 2
    assert runs.run([late.slice(0, 2)], watermark=100) == []


def test_groups_before_1970_are_late_from_the_first_epoch_on() -> None:
    """Spark's watermark begins at 0, and groups that end then or earlier are late."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE, expires=True))
    assert [row["k0"] for row in runs.run([counted([(0, "a", 1, -5), (0, "b", 1, 0), (0, "c", 1, 1)])])] == ["c"]
    assert (runs.late, runs.keys_left()) == (2, 2)


@pytest.mark.parametrize("mode", [OutputMode.UPDATE, OutputMode.APPEND])
def test_a_group_ends_with_the_rows_of_the_epoch_that_ends_it(mode: OutputMode) -> None:
    """When the watermark passes an old and a new group, rows of both in that epoch count, and later ones are late."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, mode, expires=True))
    runs.run([counted([(0, "a", 1, 90)])], watermark=10)
    ending = counted([(0, "a", 2, 90), (1, "b", 4, 100)])
    rows = runs.run([ending], watermark=100)
    assert sorted((row["k0"], row["p0"]) for row in rows) == [("a", 3), ("b", 4)]
    assert (runs.late, runs.keys_left()) == (0, 0)
    assert runs.run([ending], watermark=100) == []
    assert runs.late == 2


def test_update_mode_forgets_groups_that_are_over() -> None:
    """With a watermark, state does not grow forever; nothing is emitted for dropped groups."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE, expires=True))
    runs.run([counted([(2, "a", 2, 100)])])
    assert runs.run([], watermark=100) == []
    assert runs.keys_left() == 0


def test_without_keys_every_epoch_emits_its_one_group() -> None:
    """Before any row, it has the aggregates' results over no rows; the worker without its bin never emits anything."""
    keys, buffers = pa.schema([("k0", pa.int32())]), pa.schema([("n", pa.int64()), ("most", pa.string())])
    merges = (MergeSpec(Merge.COUNT, ("n",)), MergeSpec(Merge.MAX, ("most",)))
    runs = Runs(Aggregate(keys, buffers, merges, OutputMode.UPDATE, keyless=True))
    columns = [pa.array([0], pa.int32()), pa.array([0], pa.int32()), pa.array([3]), pa.array(["b"])]
    some = pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, "k0", "n", "most"])
    assert runs.run([]) == [{"k0": 0, "n": 0, "most": None}]
    assert runs.run([some]) == [{"k0": 0, "n": 3, "most": "b"}]
    assert runs.run([some.slice(0, 0)]) == [{"k0": 0, "n": 3, "most": "b"}]
    assert runs.run([some]) == [{"k0": 0, "n": 6, "most": "b"}]
    with runs.store.reader() as reader:
        elsewhere = EpochContext(Epoch(9), 0, 0, 0, BinSet([1, 2, 3]))
        assert list(runs.operator.run(iter([]), EpochState(reader), elsewhere)) == []


def test_expiry_keys_are_in_the_order_of_time() -> None:
    """This holds before 1970, too."""
    keys = expiry_keys(pa.array([-5, 0, 3, 300], pa.int64()), pa.array([b"x"] * 4, pa.binary())).to_pylist()
    assert keys == sorted(keys)


ROWS = pa.schema([("name", pa.string()), ("v", pa.int64())])
STATE = pa.schema([("total", pa.int64())])
OUTPUT = pa.schema([("name", pa.string()), ("total", pa.int64())])


def add(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Totals by name; a negative total is deleted."""
    known = dict(zip(state["name"].to_pylist(), state["total"].to_pylist(), strict=True))
    for name, value in zip(rows["name"].to_pylist(), rows["v"].to_pylist(), strict=True):
        known[name] = known.get(name, 0) + value
    touched = keys.column("name").to_pylist()
    output = pa.table({"name": touched, "total": [known[name] for name in touched]})
    kept = {name: total for name, total in known.items() if total >= 0}
    return output, pa.table({"name": list(kept), "total": list(kept.values())}, schema=OUTPUT)


def named(rows: list[tuple[int, str, int]]) -> pa.RecordBatch:
    """(bin, name, value), sorted as the JVM sorts."""
    bins, names, values = zip(*sorted(rows), strict=True)
    return pa.RecordBatch.from_pydict(
        {BIN_COLUMN: pa.array(bins, pa.int32()), "name": pa.array(names), "v": pa.array(values, pa.int64())}
    )


def vectorised(function: StateFunction, group_bytes_max: int = 1 << 20) -> VectorisedState:
    """An operator around a function."""
    keys = pa.schema([("name", pa.string())])
    return VectorisedState(function, keys, ROWS, STATE, OUTPUT, group_bytes_max)


@pytest.mark.parametrize("group_bytes_max", [1, 1 << 20], ids=["a bin a call", "all in one call"])
def test_the_function_sees_rows_and_state_of_its_keys(group_bytes_max: int) -> None:
    """The result is the same for any grouping of bins; a key that the function omits from the state is deleted."""
    runs = Runs(vectorised(add, group_bytes_max))
    runs.run([named([(0, "a", 1), (0, "a", 2), (1, "b", 5)]), named([(2, "c", 7)])])
    rows = runs.run([named([(0, "a", -9), (2, "c", 1)])])
    assert sorted((r["name"], r["total"]) for r in rows) == [("a", -6), ("c", 8)]
    rows = runs.run([named([(0, "a", 4)])])
    assert rows == [{"name": "a", "total": 4}]


def test_a_key_that_has_no_state_and_gets_none_is_no_change() -> None:
    """Only existing rows are deleted, so that deltas and counts of deletions are correct."""
    runs = Runs(vectorised(add))
    changed: list[tuple[int, int]] = []
    for rows in ([(0, "a", -1), (1, "b", 5)], [(0, "a", -2), (1, "b", -9)]):
        with runs.store.reader() as reader:
            state = EpochState(reader)
            list(runs.operator.run(iter([named(rows)]), state, EpochContext(Epoch(0), 0, 0, 0, BINS)))
        changed.append(states_changed(merge_last_wins(state.changes)))
        runs.run([named(rows)])
    assert changed == [(1, 0), (0, 1)]


def test_a_bin_is_never_cut_between_two_calls() -> None:
    """Groups are whole bins, even if a bin crosses the end of a batch."""
    batches = [named([(0, "a", 1), (1, "b", 1)]), named([(1, "b", 2), (1, "c", 1)]), named([(2, "d", 1)])]
    groups = [np.unique(group.column(BIN_COLUMN).to_numpy()).tolist() for group in bin_groups(iter(batches), 1)]
    assert sorted(b for group in groups for b in group) == [0, 1, 2]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda k, r, s: None, "pair"),
        (lambda k, r, s: (k, s), "pyarrow.Table"),
        (lambda k, r, s: (r, s), "columns"),
        (lambda k, r, s: (pa.table({"name": ["a"], "total": ["x"]}), s), "types"),
        (lambda k, r, s: (_out("a"), _out("zz")), "did not touch"),
        (lambda k, r, s: (_out("a"), pa.concat_tables([_out("a"), _out("a")])), "two state rows"),
    ],
    ids=["nothing", "no table", "other columns", "other types", "a foreign key", "a key twice"],
)
def test_what_a_function_returns_wrongly_is_named(function: Callable[..., Any], message: str) -> None:
    """The error has the returned and the expected value; no state is changed."""
    runs = Runs(vectorised(function))
    with pytest.raises(UserFunctionFailed, match=message):
        runs.run([named([(0, "a", 1)])])


def _out(name: str) -> pa.Table:
    return pa.table({"name": [name], "total": [1]}, schema=OUTPUT)
