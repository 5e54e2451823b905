"""A store with sorted runs beneath its rows keeps the contract of every store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from stores import packing, run_machine
from test_store_contract import BINS, PUTS, Boom, LmdbMachine, apply, put, scanned

from binshift import binary, entries
from binshift.errors import StateTooLarge
from binshift.model import Bin
from binshift.store.engine import long_keys
from binshift.store.engine.sorted_run import SortedRun


class RunsMachine(LmdbMachine):
    """The store on disk, where rows also come as runs."""

    @rule(puts=PUTS, then=PUTS, ok=st.booleans())
    def add_run(
        self,
        puts: list[tuple[int, bytes, bytes | None]],
        then: list[tuple[int, bytes, bytes | None]],
        ok: bool,
    ) -> None:
        """A run of rows that are not there yet, and a batch that may replace some of them, committed or aborted."""
        new = {(bin, key): value or b"" for bin, key, value in puts if (bin, key) not in self.rows}
        at = sorted(new)
        run = SortedRun.of(entries.make([b for b, _ in at], [k for _, k in at], [new[each] for each in at]))
        after = {**self.rows, **new}
        apply(after, then)
        try:
            with self.store.write(1) as transaction:
                assert transaction.add_run(run) == bool(at)
                put(transaction, then)
                assert {(b, k): v for b in {b for b, _ in after} for k, v in scanned(transaction, b)} == after
                if not ok:
                    raise Boom
        except Boom:
            return
        self.rows = after

    @rule(bin=BINS, rows_max=st.integers(1, 3))
    def drop(self, bin: int, rows_max: int) -> None:
        """Dropping a bin step by step ends, and deletes nothing else."""
        empty, left = False, sum(b == bin for b, _ in self.rows)
        while not empty:
            with self.store.write(1) as transaction:
                empty = transaction.drop(Bin(bin), rows_max)
                before, left = left, len(scanned(transaction, bin))
            assert empty == (left == 0)
            assert empty or left < before
        self.rows = {at: value for at, value in self.rows.items() if at[0] != bin}

    @rule(bins=st.lists(BINS, unique=True), start=st.binary(max_size=2), stop=st.none() | st.binary(max_size=2))
    def scan_bins(self, bins: list[int], start: bytes, stop: bytes | None) -> None:
        """A range of several bins is the ranges of each, one after another; so are the first keys."""
        space = start[:1] or b"p"
        with self.store.read() as transaction:
            found = [
                row for part in transaction.scan_bins(list(map(Bin, bins)), start, stop) for row in part.to_pylist()
            ]
            first = transaction.first_keys(np.array(bins, dtype=np.int32), space, 3)
        at = [
            (b, k)
            for bin in bins
            for b, k in sorted(self.rows)
            if b == bin and start <= k and (stop is None or k < stop)
        ]
        assert [(row["bin"], row["key"], row["value"]) for row in found] == [(*each, self.rows[each]) for each in at]
        keys = [[k for b, k in self.rows if b == bin and k.startswith(space)] for bin in bins]
        assert first == [min(some, default=b"")[:3] for some in keys]

    @rule()
    def size(self) -> None:
        """All rows are counted, wherever they are."""
        if not any(len(key) > long_keys.PLAIN_BYTES_MAX for _, key in self.rows):
            with self.store.read() as transaction:
                assert transaction.size().rows == len(self.rows)


def test_a_store_with_runs_behaves_as_a_dict() -> None:
    """Any sequence of transactions, runs, snapshots, scans and reopenings agrees with a dict."""
    with packing(rows_min=1):
        run_machine(RunsMachine, steps=15)


def test_values_of_more_than_two_gib_are_refused() -> None:
    """Rows of runs and others are returned as one column, which holds no more."""
    half = binary.build(np.array([0, 1200 << 20]), pa.py_buffer(np.zeros(1200 << 20, dtype=np.uint8)))
    with pytest.raises(StateTooLarge, match="2 GiB"):
        binary.concat([half, half])
    assert binary.concat([half.slice(0, 0), binary.of([b"a", None])]).to_pylist() == [b"a", None]
