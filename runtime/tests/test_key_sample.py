"""The most frequent key of a task: `binshift.worker.key_sample`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN
from binshift.worker.key_sample import SAMPLES_MAX, SHARE_MIN, TEXT_MAX, KeySample, key_text


@dataclass(frozen=True)
class ByColumn:
    """An operator whose key is these columns."""

    names: tuple[str, ...] = ("key",)

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(name) for name in self.names]


def batch(keys: Sequence[str], counts: Sequence[int] | None = None) -> pa.RecordBatch:
    """Rows, the bin of each of which is the length of its key; with records that each stands for."""
    columns = {BIN_COLUMN: pa.array([len(key) for key in keys], pa.int32()), "key": pa.array(keys, pa.string())}
    if counts is not None:
        columns[RECORDS_COLUMN] = pa.array(counts, pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def sampled(batches: Sequence[pa.RecordBatch]) -> KeySample:
    """A sample of some batches."""
    sample = KeySample(ByColumn())
    for each in batches:
        sample.add(each)
    return sample


@given(st.lists(st.integers(0, 4_000), min_size=1, max_size=12), st.integers(50, 5_000))
def test_sorted_rows_are_counted_closely(counts: list[int], size: int) -> None:
    """Of rows by key, in batches of any size, the most frequent one is found, off by a few steps of the sample at most."""
    keys = [f"k{number:02}" for number, count in enumerate(counts) for _ in range(count)]
    sample = sampled([batch(keys[at : at + size]) for at in range(0, len(keys), size)])
    found, step = sample.most_frequent(), sample._every
    assert sample._taken <= SAMPLES_MAX
    assert step <= max(1, 2 * len(keys) / SAMPLES_MAX)
    if found is None:
        assert max(counts) <= SHARE_MIN * len(keys) + step
    else:
        assert abs(found.records - counts[int(found.key[1:])]) <= step
        assert counts[int(found.key[1:])] >= max(counts) - 2 * step
        assert found.bin == 3


@given(st.lists(st.lists(st.integers(0, 50_000), min_size=1, max_size=50), min_size=1, max_size=5))
def test_rows_stand_for_records(counts: list[list[int]]) -> None:
    """Where the JVM has aggregated, a row counts as many times as it has records, and one without any does not count."""
    sample = sampled([batch([f"k{at}" for at in range(len(each))], each) for each in counts])
    width = max(map(len, counts))
    exact = [sum(each[at] for each in counts if at < len(each)) for at in range(width)]
    found, step = sample.most_frequent(), sample._every * len(counts)
    assert sample._taken <= SAMPLES_MAX
    if found is not None:
        assert abs(found.records - exact[int(found.key[1:])]) <= step
        assert exact[int(found.key[1:])] >= max(exact) - 2 * step
    else:
        assert max(exact) <= SHARE_MIN * sum(exact) + step


@pytest.mark.parametrize(
    "sample",
    [
        sampled([]),
        sampled([batch([])]),
        sampled([batch([], [])]),
        sampled([batch(["x"], [0])]),
        sampled([batch([f"k{number}" for number in range(1000)])]),
    ],
    ids=["no batch", "no rows", "no aggregated rows", "no records", "many keys"],
)
def test_often_there_is_no_key(sample: KeySample) -> None:
    """Without records, and where each key has few, none is reported."""
    assert sample.most_frequent() is None


def test_an_operator_without_key_columns() -> None:
    """Where all rows have the same key, there is no text for it."""
    sample = KeySample(ByColumn(()))
    sample.add(batch(["x"] * 10))
    assert sample.most_frequent() is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_texts_are_short_and_differ(one: str, other: str) -> None:
    """Whatever a key is, its text is bounded and printable; long keys with one beginning have different texts."""
    texts = [key_text([pa.array([("x" * 130 if len(key) > 150 else "") + key])]) for key in (one, other)]
    assert all(len(text) <= TEXT_MAX and text.isprintable() for text in texts)
    if min(len(one), len(other)) > 150:
        assert (texts[0] == texts[1]) == (one == other)


def test_texts_of_types() -> None:
    """Windows have no times in a text; nulls, bytes and strings that are not UTF-8 have one."""
    window = pa.struct([("start", pa.timestamp("us")), ("end", pa.timestamp("us"))])
    start = datetime.datetime(2026, 1, 1)
    wild = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], "<i4")), pa.py_buffer(b"a\xff")])
    columns = [
        pa.array([{"start": start, "end": start}], window),
        pa.array([None], pa.int64()),
        pa.array([b"\x01\xff"]),
        wild,
        pa.array([datetime.date(2026, 1, 2)]),
    ]
    assert key_text(columns) == "window, null, 0x01ff, a\ufffd, 2026-01-02"


@pytest.mark.parametrize("zone", ["GMT+08:00", "PST", "Z"])
def test_no_value_ends_an_epoch(zone: str) -> None:
    """Spark's time zones are more than Python's."""
    assert key_text([pa.array([0], pa.timestamp("us", zone)), pa.array([7])]) == "?, 7"
