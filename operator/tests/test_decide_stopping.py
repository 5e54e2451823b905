"""A query that takes its time to stop: one request is sent, and nothing else happens meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import SimCluster
from sim_runtime import Query

from binshift_operator.reconcile import NEXT_STEP_SECONDS


@pytest.mark.parametrize("edit", [{"image": "example/clicks:2"}, {"suspend": True}], ids=["restart", "suspend"])
@pytest.mark.parametrize("reports", [True, False], ids=["reports stopping", "earlier version"])
def test_a_stop_is_requested_once(edit: dict[str, Any], reports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long epoch delays the stop: there are few reconciliations and one request; of a driver that reports nothing, one in each."""
    cluster = SimCluster().start(2)
    cluster.converge()
    (query,) = cluster.queries.values()
    query.lasting = 15
    if not reports:
        shown = Query._shown
        monkeypatch.setattr(Query, "_shown", lambda self: shown(self) | {"stopping": None})
    cluster.edit(**edit)
    tried, pauses = list[str](), list[float | None]()
    for _ in range(10):
        cluster.server.requests.clear()
        pauses.append(cluster.reconciler.reconcile("default", "clicks").requeue_after)
        tried += [each for each in cluster.server.requests if each.startswith("PATCH") and "statefulset" in each]
        cluster.tick()
    assert query.state == "Running"
    assert pauses.count(NEXT_STEP_SECONDS) == 1
    if reports:
        assert query.stop_requests == 1
        assert len(tried) == (2 if "image" in edit else 0)
    cluster.edit(suspend=False)
    cluster.converge()


def test_a_lost_stop_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that the driver never received is repeated until it reports that it stops."""
    cluster = SimCluster().start(2)
    cluster.converge()
    (query,) = cluster.queries.values()
    query.lasting = 5
    answer = Query.answer
    lost = iter([True, True])

    def deaf(self: Query, method: str, path: str, body: Any) -> Any:
        return {} if path == "/v1/stop" and next(lost, False) else answer(self, method, path, body)

    monkeypatch.setattr(Query, "answer", deaf)
    cluster.edit(suspend=True)
    cluster.converge()
    assert query.stop_requests == 1
