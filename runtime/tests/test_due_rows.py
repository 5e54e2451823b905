"""Index rows that are due, in batches of whole bins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from binshift.operators.expiry import IndexRows, whole_bins


@given(
    st.lists(st.integers(0, 5), max_size=40).map(sorted), st.lists(st.integers(1, 10), max_size=12), st.integers(1, 12)
)
def test_batches_of_whole_bins(bins: list[int], sizes: list[int], rows_max: int) -> None:
    """However the rows arrive: no bin is in two batches, each batch has the fewest bins that make ``rows_max`` rows, nothing is lost."""
    keys = [bytes([at]) for at in range(len(bins))]
    parts: list[IndexRows] = []
    at = 0
    for size in [*sizes, len(bins)]:
        if bins[at : at + size]:
            parts.append((np.array(bins[at : at + size], dtype=np.int32), pa.array(keys[at : at + size], pa.binary())))
        at += size
    found = list(whole_bins(iter(parts), rows_max))
    assert [bin for some, _ in found for bin in some.tolist()] == bins
    assert [key for _, some in found for key in some.to_pylist()] == keys
    of_batch = [set(some.tolist()) for some, _ in found]
    assert sum(map(len, of_batch)) == len(set(bins))
    for some, _ in found[:-1]:
        assert len(some) >= rows_max
    for some, _ in found:
        assert int((some != some[-1]).sum()) < rows_max
