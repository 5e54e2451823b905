"""If tasks of a source or a sink fail in Java, their epoch is run again as often as Spark would run such a task."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile import check_log, writer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from totals import Kept, answers, summed, totalling

from binshift.engine.epoch_loop import TASK_FAILURES_MAX
from binshift.errors import TaskFailed

pytestmark = pytest.mark.cluster

BROKEN = 2
"""The epoch in which tasks fail."""


class Away(Kept):
    """A sink whose disk is unavailable for some calls."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.calls = 0

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep an epoch's rows, or fail in one of Spark's tasks."""
        if epoch == BROKEN:
            self.calls += 1
            if self.calls <= self.times:
                frame.repartition(1).select(
                    F.reflect(F.lit("java.lang.Integer"), F.lit("parseInt"), F.lit("the disk is unavailable"))
                ).collect()
        super().__call__(frame, epoch)


def test_a_disk_that_comes_back_in_time(session: SparkSession, tmp_path: Path) -> None:
    """With as many failures as Spark allows one task, the result is correct, and no error is reported."""
    sink = Away(TASK_FAILURES_MAX - 1)
    query = writer(totalling(session, summed), tmp_path, sink).start()
    query.await_epoch(BROKEN + 1, 120)
    query.stop()
    assert sink.calls == TASK_FAILURES_MAX
    for epoch, wanted in enumerate(answers(BROKEN + 2)):
        assert sink.epochs[epoch] == wanted, epoch


def test_a_disk_that_stays_away(session: SparkSession, tmp_path: Path) -> None:
    """The query ends with the task's error, at the previous epoch; with the disk restored it continues."""
    sink = Away(1000)
    query = writer(totalling(session, summed), tmp_path, sink).start()
    with pytest.raises(TaskFailed, match="the disk is unavailable") as caught:
        query.awaitTermination(120)
    assert len(str(caught.value).splitlines()) == 1
    assert sink.calls == TASK_FAILURES_MAX
    assert query.epoch == BROKEN - 1
    check_log(tmp_path)
    back = Away(0)
    query = writer(totalling(session, summed), tmp_path, back).start()
    query.await_epoch(BROKEN + 1, 120)
    query.stop()
    for epoch, wanted in enumerate(answers(BROKEN + 2)):
        assert epoch < BROKEN or back.epochs[epoch] == wanted, epoch
