"""How long a background round may take: longer only if it loads much, in bytes or in bins."""

from __future__ import annotations

import numpy as np
import pytest

from binshift.engine.background_scheduler import (
    LONG_BINS,
    LONG_BYTES,
    LONG_SECONDS,
    SHORT_SECONDS,
    round_seconds,
    with_common_time,
)
from binshift.log.index.bringup import BringUp, DeltaPart
from binshift.log.records.binsets import pack
from binshift.log.records.commits import FileRef
from binshift.model import BinSet, Epoch, Fence, Term, Worker
from binshift.worker.messages import BackgroundSpec, CopyOrder


@pytest.mark.parametrize(
    ("fresh", "size", "seconds"),
    [
        (LONG_BINS, LONG_BYTES, SHORT_SECONDS),
        (LONG_BINS + 1, 0, LONG_SECONDS),
        (1, LONG_BYTES + 1, LONG_SECONDS),
        (0, LONG_BYTES + 1, SHORT_SECONDS),
    ],
)
def test_a_round_that_loads_much_is_long(fresh: int, size: int, seconds: float) -> None:
    """Many small bins are much: each group of them is read from many files. Copies that only catch up are not."""
    bins = BinSet(np.arange(max(fresh, 1), dtype=np.int32))
    file = FileRef("deltas/1", size, 1, 0, "", pack(bins))
    new = BinSet(np.arange(fresh, dtype=np.int32))
    files = BringUp("sum", Epoch(1), bins, new, ((Epoch(-1), bins),), (), (DeltaPart(Epoch(1), file, bins),))
    assert round_seconds([CopyOrder(bins, Epoch(1), files)]) == seconds
    assert round_seconds([]) == SHORT_SECONDS


def test_operators_of_a_worker_have_the_same_time() -> None:
    """The round of a worker ends with its slowest operator: one with less to do must not stop long before, with its copies half made."""
    fence = Fence(Term(1), Epoch(1), 0)
    specs = [
        BackgroundSpec(fence, operator, Worker(worker), budget_seconds=seconds)
        for worker, operator, seconds in ((0, "a", SHORT_SECONDS), (0, "b", LONG_SECONDS), (1, "a", SHORT_SECONDS))
    ]
    found = with_common_time(specs)
    assert [(spec.worker, spec.operator, spec.budget_seconds) for spec in found] == [
        (0, "a", LONG_SECONDS),
        (0, "b", LONG_SECONDS),
        (1, "a", SHORT_SECONDS),
    ]
