"""Complete mode: every epoch emits every group of every owned bin, in the order of the store."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_histories import (
    KEYS,
    Key,
    Row,
    TwoWorkers,
    bin_column,
    canonical,
    key_columns,
    keys,
    sorted_rows,
    splits,
    store_order,
)

from binshift.entries import make, size_bytes
from binshift.invariants import InvariantViolated
from binshift.model import BinSet
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochState
from binshift.operators.current import current
from binshift.operators.merge import Merge, MergeSpec
from binshift.store.engine.memory_store import MemoryStore

BUFFERS = pa.schema([("n", pa.int64())])
COUNT = (MergeSpec(Merge.COUNT, ("n",)),)
COMPLETE = Aggregate(KEYS, BUFFERS, COUNT, OutputMode.COMPLETE)

epochs = st.lists(st.tuples(st.lists(st.tuples(keys, st.integers(1, 9)), max_size=12), splits), max_size=5)


def counted(rows: dict[str, tuple[Key, int]]) -> pa.RecordBatch:
    """One row per key, as the JVM delivers them, in any order."""
    found = [key for key, _ in rows.values()]
    columns = [bin_column(found), *key_columns(found), pa.array([n for _, n in rows.values()], pa.int64())]
    return pa.RecordBatch.from_arrays(columns, [BIN_COLUMN, *KEYS.names, "n"])


@given(epochs)
def test_every_epoch_emits_all_groups(history: list[tuple[list[tuple[Key, int]], BinSet]]) -> None:
    """The output equals a dictionary of counts, also in an epoch without rows, whichever worker owns a bin."""
    workers = TwoWorkers(COMPLETE)
    wanted: dict[str, tuple[Key, int]] = {}
    for step, (rows, first) in enumerate(history):
        partial: dict[str, tuple[Key, int]] = {}
        for key, n in rows:
            partial[canonical(key)] = (key, partial.get(canonical(key), (key, 0))[1] + n)
        for name, (key, n) in partial.items():
            wanted[name] = (key, wanted.get(name, (key, 0))[1] + n)
        output = workers.run(counted(partial), watermark=step * 1000, first=first)
        normal = [(k0, None if k1 is None else k1 + 0.0, n) for (k0, k1), n in wanted.values()]
        assert sorted_rows(output) == sorted_rows(normal)
        assert_ordered(output, first)
    assert len(workers.stored()) == len(wanted)


def assert_ordered(output: list[Row], first: BinSet) -> None:
    """Each worker's rows ascend by bin and packed key."""
    places = [store_order((row[0], row[1])) for row in output]
    for mine in (True, False):
        assert all(a < b for a, b in pairwise(place for place in places if (place[0] in first) is mine))


def test_complete_mode_without_keys() -> None:
    """The one group is emitted exactly once in every epoch: before its first row, with rows, and after them."""
    schema, names = pa.schema([("k0", pa.int32())]), [BIN_COLUMN, "k0", "n"]
    workers = TwoWorkers(Aggregate(schema, BUFFERS, COUNT, OutputMode.COMPLETE, keyless=True))
    some = pa.RecordBatch.from_arrays([pa.array([0], pa.int32()), pa.array([0], pa.int32()), pa.array([3])], names)
    assert workers.run(some.slice(1)) == [(0, 0)]
    assert workers.run(some, first=BinSet([1])) == [(0, 3)]
    assert workers.run(some.slice(1), first=BinSet([0])) == [(0, 3)]
    assert workers.run(some) == [(0, 6)]


def test_groups_do_not_expire_in_complete_mode() -> None:
    """An operator that would drop groups from a complete output is refused."""
    with pytest.raises(InvariantViolated, match="complete"):
        Aggregate(KEYS, BUFFERS, COUNT, OutputMode.COMPLETE, expires=True)


@pytest.mark.parametrize("batch_bytes_max", [1, 100, 1 << 20])
def test_current_rows_come_in_bounded_batches(batch_bytes_max: int) -> None:
    """Stored rows are overlaid with changes, without the deleted ones and other spaces, in batches of limited size."""
    names = [STATE_SPACE + b"%04d" % at for at in range(3000)]
    store = MemoryStore()
    with store.write(1) as transaction:
        transaction.put_many(make([1] * 2000, names[:2000], [b"old"] * 2000))
        transaction.put_many(make([1, 3, 3], [b"\x01x", STATE_SPACE, b"\x02"], [b""] * 3))
    with store.read() as reader:
        state = EpochState(reader)
        changed = pa.array(names[500:])
        state.put(pa.array([1] * 2500, pa.int32()), changed, pa.array([b"new"] * 2500, pa.binary()))
        state.put(pa.array([1] * 2500, pa.int32()), changed, pa.array([b"newer"] * 2499 + [None], pa.binary()))
        state.put(pa.array([0, 2], pa.int32()), pa.array([STATE_SPACE, b"\x01"]), pa.array([b"a", b"b"]))
        found = list(current(state, BinSet([0, 1, 2, 3]), STATE_SPACE, batch_bytes_max))
    largest = max(size_bytes(batch) for batch in found)
    assert largest <= 2 * max(batch_bytes_max, 14)
    rows = [row for batch in found for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    middle = [(1, name, b"old" if at < 500 else b"newer") for at, name in enumerate(names[:-1])]
    assert rows == [(0, STATE_SPACE, b"a"), *middle, (3, STATE_SPACE, b"")]
