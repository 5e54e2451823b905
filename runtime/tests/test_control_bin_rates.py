"""The rate of each bin in the control API."""

from __future__ import annotations

import numpy as np
import pytest
from control_simulated import BINS, World


def test_bins_have_their_rate_once_enough_is_counted() -> None:
    """A bin's share of the counted records is its share of the source's rate."""
    world = World()
    assert {load.rows_per_second for load in world.service.bins(None, 0, BINS).bins} == {None}
    records = world.query.dataflow.coordinator.migrations.bin_records
    records.add([np.array([range(BINS), [30_000] + [1_000] * (BINS - 1)]).tobytes()])
    before, page, after = (world.service.snapshot(), world.service.bins(None, 0, BINS), world.service.snapshot())
    found = np.array([load.rows_per_second for load in page.bins], dtype=float)
    assert (found / found.sum()).tolist() == pytest.approx((records.counts / records.counts.sum()).tolist())
    assert before.rates is not None
    assert after.rates is not None
    # The rate declines while no epoch is committed.
    assert after.rates.source_rows_per_second <= found.sum() + 1e-9 <= before.rates.source_rows_per_second + 2e-9
