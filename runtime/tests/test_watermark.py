"""The watermark of an epoch and of the previous one: in first runs and replays, and of checkpoints that lack them."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from log_worlds import DictStorage, World

from binshift.errors import IncompatibleState
from binshift.log.storage.opening import open_storage
from binshift.operators.aggregate import OutputMode
from binshift.spark.session import offsets
from simulator import Effect, Fault, Faults, Row, SimulatedCluster, Totals, Tuning

EPOCHS = 70


class DriversDie:
    """The plan in which the driver periodically dies after the record and before Spark's commit, so that a replay follows."""

    def __init__(self, every: int) -> None:
        self.commits = {f"Spark's commit of epoch {epoch}" for epoch in range(every, EPOCHS, every)}

    def __call__(self, effect: Effect) -> Fault | None:
        """Once before each of these commits."""
        if effect.what not in self.commits:
            return None
        self.commits.remove(effect.what)
        return Fault.KILL


def in_time_and_late(epoch: int) -> list[Row]:
    """Two seconds per epoch, a window ends in each; one row is of a window that ended two epochs earlier."""
    now = 2_000 * epoch
    times = [now, now + 900, max(0, now - 9_000)]
    return [{"key": "a", "value": at, "time": at} for at in times]


@pytest.mark.parametrize(("bins", "workers"), [(1, 1), (4, 4)])
@pytest.mark.parametrize(("cycle", "every"), [(4, 13), (64, 65)])
def test_a_replay_knows_the_watermark_of_the_epoch_before(bins: int, workers: int, cycle: int, every: int) -> None:
    """Late rows stay late in a replay, even if every bin has a snapshot of the previous epoch and the log begins there."""
    flow = Totals(window_ms=2_000, delay_ms=3_000)
    tuning = Tuning(snapshot_cycle_epochs=cycle, collect_every_epochs=16, manifest_every_epochs=100)
    faults = Faults(DriversDie(every))
    cluster = SimulatedCluster(flow, bins=bins, workers=workers, slots=workers, tuning=tuning, faults=faults)
    for epoch in range(EPOCHS):
        cluster.epoch(in_time_and_late(epoch))
        cluster.background()
    assert len(faults.struck) == (EPOCHS - 1) // every
    assert list(cluster.world.stream.deliveries.values()).count(2) == len(faults.struck)


def test_rows_that_a_filter_drops_move_the_watermark() -> None:
    """Spark follows the event time at `withWatermark`, before a filter behind it."""
    flow = Totals(window_ms=10, delay_ms=5, where=lambda row: row["time"] < 100, mode=OutputMode.APPEND)
    cluster = SimulatedCluster(flow, workers=2)
    cluster.epoch([{"key": "a", "value": 1, "time": 3}])
    assert cluster.epoch([{"key": "a", "value": 1, "time": 4}, {"key": "a", "value": 7, "time": 1_000}])["totals"] == []
    window = {"key": "a", "window": 0, "rows": 3, "sum": 3, "least": 1, "greatest": 1}
    assert cluster.epoch([{"key": "a", "value": 1, "time": 5}])["totals"] == [window]
    assert cluster.epoch([{"key": "a", "value": 1, "time": 6}])["totals"] == []
    assert cluster.driver.log.index.record(cluster.last).watermark_ms == 995


def test_a_checkpoint_whose_watermark_spark_does_not_know_is_refused(tmp_path: Path) -> None:
    """An earlier binshift kept the watermark in its own log: with Spark's, which is 0 there, groups would be opened again."""
    files, world = open_storage(str(tmp_path)), World(DictStorage(), random.Random(1))
    world.epoch()
    record = world.index.record(world.index.last)
    offsets.check_watermark(files, msgspec.structs.replace(record, watermarks={"state": None}))
    offsets.check_watermark(files, msgspec.structs.replace(record, watermark_ms=5))
    with pytest.raises(IncompatibleState, match=r"earlier binshift.*another checkpoint location"):
        offsets.check_watermark(files, msgspec.structs.replace(record, watermarks={"state": 1_700_000_000_000}))
