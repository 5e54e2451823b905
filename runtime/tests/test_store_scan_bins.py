"""The same range of several bins, on disk and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift import entries
from binshift.model import Bin
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import discard_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

LIMITS = StoreLimits(scan_bytes_max=200, map_bytes_max=1 << 24)
KEYS = st.binary(max_size=2) | st.builds(lambda at: b"\x01" + b"k" * 500 + at, st.binary(max_size=1))
ROWS = st.dictionaries(st.tuples(st.integers(0, 5), KEYS), st.binary(max_size=60), max_size=40)
BOUND = st.binary(max_size=2)


@contextmanager
def opened(kind: str) -> Iterator[KeyValueStore]:
    """A new store."""
    if kind == "memory":
        yield MemoryStore(LIMITS)
        return
    with TemporaryDirectory() as folder:
        yield open_lmdb(Path(folder), LIMITS)
        discard_environments(folder)


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
@given(rows=ROWS, bins=st.permutations(range(6)), count=st.integers(0, 6), start=BOUND, stop=st.none() | BOUND)
def test_a_range_of_several_bins_is_that_of_each(
    kind: str, rows: dict[tuple[int, bytes], bytes], bins: list[int], count: int, start: bytes, stop: bytes | None
) -> None:
    """Rows come bin by bin, ascending, in batches of bounded size, long keys included."""
    with opened(kind) as store:
        with store.write(1) as transaction:
            transaction.put_many(entries.make([bin for bin, _ in rows], [key for _, key in rows], list(rows.values())))
        with store.read() as reader:
            batches = list(reader.scan_bins([Bin(bin) for bin in bins[:count]], start, stop))
    assert all(each.num_rows == 1 or entries.size_bytes(each) <= LIMITS.scan_bytes_max for each in batches)
    found = [row for each in batches for row in zip(*(column.to_pylist() for column in each.columns), strict=True)]
    assert found == [
        (bin, key, value)
        for bin in bins[:count]
        for (at, key), value in sorted(rows.items())
        if at == bin and start <= key and (stop is None or key < stop)
    ]
