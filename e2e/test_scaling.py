"""The first story: a dataflow is rescaled while it runs, by nothing but kubectl."""

from __future__ import annotations

from stage import Stage
from story import Story

PAUSE_SECONDS_MAX = 30.0
"""Ready means an epoch within so many seconds; a rescale may not need longer either."""


def test_rescale(scene: Stage, told: Story) -> None:
    """Ready after apply; 2 to 4 to 3 executors by `kubectl scale`; every row of every epoch is right, and none is late by much."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(10)
    with told.act():
        for replicas in (4, 3):
            dataflow.scale(replicas)
            dataflow.await_settled()
            assert sorted(dataflow.bins()) == [str(slot) for slot in range(replicas)]
            assert len(dataflow.pods("executor")) == replicas
    dataflow.await_epochs(5)
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
    assert told.pause <= PAUSE_SECONDS_MAX, told.line
    assert dataflow.status["replicas"] == 3
    assert dataflow.has("Ready")
