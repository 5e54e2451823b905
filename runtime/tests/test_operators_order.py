"""The order in which an aggregation reads and writes rows: that of the store, however they come."""

from __future__ import annotations

from test_operators import BINS, BUFFERS, COUNT, KEYS, Runs, counted

from binshift.entries import is_sorted
from binshift.model import Epoch
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import EpochContext, EpochState


def test_an_aggregation_reads_and_writes_in_the_order_of_the_store() -> None:
    """However the exchange delivers the groups, they are sorted once, so that the delta is not sorted again."""
    runs = Runs(Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE))
    with runs.store.reader() as reader:
        state = EpochState(reader)
        batch = counted([(3, "a", 1, None), (0, "b", 1, None), (3, None, 1, None), (0, "a", 2, None)])
        output = list(runs.operator.run(iter([batch]), state, EpochContext(Epoch(0), 0, 0, 0, BINS)))
    (changes,) = state.changes
    assert is_sorted(changes, strictly=True)
    assert output[0].to_pylist()[0] == {"k0": "a", "p0": 2}
