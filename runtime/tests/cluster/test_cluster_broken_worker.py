"""If a worker has a file in place of its store directory, the others keep copying and writing snapshots, and it is named."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import awaiting
import httpx2
import pytest
from counted import Outputs, counting
from pyspark.sql import SparkSession

from binshift.control import ControlSettings, Tokens, serve
from binshift.local import LocalCluster
from binshift.log.tools.inspect import verify

pytestmark = pytest.mark.cluster

BROKEN = 3
CYCLE_EPOCHS = 8
TOKEN = "admin-token-0123456789"
awaited = partial(awaiting.awaited, seconds=180.0)


@pytest.fixture
def broken(cluster: LocalCluster) -> Iterator[Path]:
    """The file in place of a worker's stores; they are restored afterwards."""
    place = cluster.directory / f"worker-{BROKEN}" / "store"
    aside = place.with_name("aside")
    if place.exists():
        place.rename(aside)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    yield place
    place.unlink()
    if aside.exists():
        aside.rename(place)


def oldest_snapshot(query: Any) -> int:
    """The epoch of the oldest of the bins' newest snapshots."""
    return int(query._coordinator._log.index.snapshot_epochs("0.stateStoreSave").min())


def every_bin_gets_a_snapshot(query: Any) -> None:
    """From now on every bin gets one, however many epochs pass while a snapshot is written."""
    begun = query.epoch
    awaited(lambda: oldest_snapshot(query), lambda oldest: oldest > begun)


def test_a_store_that_cannot_be_opened(session: SparkSession, broken: Path, tmp_path: Path) -> None:
    """Snapshots are recorded as usual and bins move between the others; a move to the broken worker ends with its error."""
    outputs = Outputs()
    writer = (
        counting(session, bins=32, workers=2, snapshot_cycle_epochs=CYCLE_EPOCHS, store_map_bytes=64 << 20)
        .foreachBatch(outputs)
        .option("checkpointLocation", str(tmp_path))
    )
    query: Any = writer.start()
    try:
        with serve(ControlSettings(tokens=Tokens(TOKEN))) as control:
            control.attach(query)
            api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)

            def worker() -> Any:
                found = api.get("/v1/workers").raise_for_status().json()["workers"]
                return next((each for each in found if each["worker"] == BROKEN), None)

            seen = awaited(worker, lambda seen: seen is not None and seen["backgroundFailures"] > 2)
            assert "StoreDamaged" in seen["backgroundError"]
            assert str(broken) in seen["backgroundError"]
            metrics = httpx2.get(f"{control.health.url}/metrics", timeout=30).text
            assert f'binshift_worker_background_failures{{worker="{BROKEN}"}}' in metrics
            every_bin_gets_a_snapshot(query)
            assert query.rescale(3).wait(120).value == "settled"
            refused = query.rescale(4)
            refused.wait(180)
            assert refused.status in ("failed", "cancelled")
            assert f"worker {BROKEN}" in refused.reason
            every_bin_gets_a_snapshot(query)
        query.stop()
    finally:
        if query.isActive:
            query.abort()
    outputs.check(query.epoch, "with a broken worker")
    assert verify(str(tmp_path / "binshift")) == []
