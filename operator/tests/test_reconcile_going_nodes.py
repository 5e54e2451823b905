"""Executors leave a node that is about to go, in a simulated cluster: as in a roll, each holds nothing when it is deleted.

`sim_checks.assert_may_go` holds throughout: no executor is removed that holds bins, may get some, or lost its last one in this epoch.
"""

from __future__ import annotations

from typing import Any

import pytest
from sim_nodes import CA, node_cluster, run_until_settled
from sim_rolling import PLACES, assert_never_stopped, uids
from sim_runtime import BINS


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "going",
    [
        {"unschedulable": True},
        {"taints": [CA]},
        {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
        {"taints": [{"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"}]},
    ],
    ids=["cordon", "autoscaler", "karpenter", "older karpenter"],
)
def test_executors_leave(replicas: int, going: dict[str, Any]) -> None:
    """All executors leave a node that is cordoned or announced to be removed; the query runs, and each bin moves about once."""
    cluster = node_cluster(replicas)
    before, driver, epoch, began = uids(cluster), uids(cluster, "driver"), cluster.log.epoch, cluster.now
    cluster.change_node("first", **going)
    bins = run_until_settled(cluster)
    assert cluster.on("first") == set()
    assert cluster.on("second") == set(range(replicas))
    assert not before & uids(cluster)
    assert_never_stopped(cluster, driver, epoch, cluster.now - began)
    assert bins <= (replicas + 1) / replicas * BINS + PLACES * (replicas + 1)
    cluster.converge()
    assert "rollout" not in cluster.status
