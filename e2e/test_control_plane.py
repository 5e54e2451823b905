"""The cluster's own trouble: the stream needs none of it while nothing changes."""

from __future__ import annotations

import time

import pytest

from faults.control_plane import without_api_server
from stage import Stage
from story import Story

AWAY_SECONDS = 60


def test_api_server_away(scene: Stage, told: Story) -> None:
    """For a minute nobody can ask the API server: no epoch is missed for it, no pod restarts, and then a rescale works."""
    if not scene.cluster.own:
        pytest.skip("only on a node of our own")
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(10)
    pods, epoch = dataflow.pod_uids(), dataflow.epoch
    with told.act(), without_api_server(scene.cluster):
        time.sleep(AWAY_SECONDS)
    assert dataflow.epoch > epoch
    assert dataflow.pod_uids() == pods
    dataflow.scale(3)
    dataflow.await_settled()
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
