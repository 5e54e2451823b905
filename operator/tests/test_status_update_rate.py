"""A healthy stream's status is written about once a minute, however many epochs it commits."""

from __future__ import annotations

from sim_cluster import SimCluster

TICKS = 300


def writes(cluster: SimCluster) -> list[str]:
    """What the operator has written."""
    return [each for each in cluster.server.writes if not each.startswith("GET")]


def test_a_healthy_stream_is_written_once_a_minute() -> None:
    """Epoch and latency alone are a reason to write the status once a minute; what is shown is never older than that."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.run(5)
    cluster.server.writes.clear()
    epoch = cluster.log.epoch
    for _ in range(TICKS):
        cluster.run(1)
        assert cluster.log.epoch - cluster.status["epoch"] <= 61
    assert cluster.log.epoch >= epoch + TICKS - 1
    assert len(writes(cluster)) <= TICKS // 60 + 1
    (ready,) = (each for each in cluster.status["conditions"] if each["type"] == "Ready")
    assert f"the newest is {cluster.status['epoch']}, committed at " in ready["message"]
    assert cluster.status["epochCommittedAt"][11:] in ready["message"]


def test_so_is_one_that_was_rescaled() -> None:
    """The newest migration, its latencies and what is remembered of it do not change that."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.edit(replicas=3)
    cluster.converge()
    cluster.run(5)
    cluster.log.epoch += 1
    (query,) = cluster.queries.values()
    latency = {"p50Seconds": 0.1, "p99Seconds": 0.123456789}
    query.newest_migration.update(latencyBefore=latency, latencyDuring=latency)
    cluster.run(5)
    cluster.server.writes.clear()
    cluster.run(TICKS)
    assert len(writes(cluster)) <= TICKS // 60 + 1


def test_what_changes_is_written_at_once() -> None:
    """Anything else that changes is in the status after the next reconciliation, together with the numbers."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.run(20)
    cluster.edit(replicas=3)
    cluster.run(1)
    assert cluster.status["observedGeneration"] == cluster.dataflow["metadata"]["generation"]
    assert cluster.log.epoch - cluster.status["epoch"] <= 2
    cluster.converge()
