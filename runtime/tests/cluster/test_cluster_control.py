"""A query on a real cluster, controlled over HTTP from its first target to its stop."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import awaiting
import httpx2
import pytest
from counted import stream
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.control import ControlSettings, Tokens, serve
from binshift.spark.frontend.dataflow import StreamingQuery

pytestmark = pytest.mark.cluster

TOKEN = "admin-token-0123456789"
awaited = partial(awaiting.awaited, seconds=120.0)


def started(session: SparkSession, path: Path) -> Any:
    """A count by name that runs on two workers, with its checkpoint at ``path``."""
    counted = stream(session).groupBy("name").agg(F.count("*"))
    writer = binshift.writeStream(counted, bins=32, workers=2).outputMode("update").format("noop").queryName("steered")
    return writer.option("checkpointLocation", str(path)).start()


def scraped(url: str) -> dict[str, float]:
    """The newest value of each metric."""
    families = text_string_to_metric_families(httpx2.get(f"{url}/metrics", timeout=30).text)
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_a_query_is_steered_over_http(session: SparkSession, tmp_path: Path) -> None:
    """The state is Loading, then Running; a target settles, a worker drains, metrics follow, and a stop ends in Stopped."""
    with serve(ControlSettings(tokens=Tokens(TOKEN))) as control:
        api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)

        def dataflow() -> Any:
            return api.get("/v1/dataflow").raise_for_status().json()

        assert dataflow()["state"] == "Loading"
        query = started(session, tmp_path)
        control.attach(query)
        seen = awaited(dataflow, lambda seen: seen["epoch"] >= 2)
        assert (seen["state"], seen["name"], seen["workers"]) == ("Running", "steered", [0, 1])
        assert {0, 1, 2} <= set(seen["registered"])
        assert seen["latency"]["p99Seconds"] >= seen["latency"]["p50Seconds"] > 0
        assert httpx2.get(f"{control.health.url}/readyz", timeout=30).status_code == 200

        wanted = {"owner": "7d3c", "generation": 1, "workers": [0, 1, 2]}
        answer = api.put("/v1/target", json=wanted)
        assert answer.status_code == 202
        begun = answer.json()["migration"]["id"]
        seen = awaited(dataflow, lambda seen: seen["target"]["settled"])
        assert seen["workers"] == [0, 1, 2]
        assert api.put("/v1/target", json=wanted).json() == {"migration": None}
        assert api.get(f"/v1/migrations/{begun}").json()["phase"] == "settled"

        assert api.post("/v1/workers/2/drain").status_code == 202
        seen = awaited(dataflow, lambda seen: seen["workers"] == [0, 1] and seen["migration"]["phase"] == "settled")
        assert seen["target"]["effectiveWorkers"] == [0, 1]
        assert {b["worker"] for b in api.get("/v1/bins").json()["bins"]} == {0, 1}

        metrics = scraped(control.health.url)
        assert metrics["binshift_epoch"] >= seen["epoch"]
        counted = ("moved_bins_total", "log_bytes", "target_workers", "record_latency_seconds_count")
        assert all(metrics[f"binshift_{name}"] > 0 for name in counted)

        assert api.post("/v1/stop").status_code == 202
        awaited(dataflow, lambda seen: seen["state"] == "Stopped")
        assert not query.isActive
        assert api.post("/v1/workers/1/drain").status_code == 409
        assert httpx2.get(f"{control.health.url}/readyz", timeout=30).status_code == 503


def test_an_epoch_that_hangs_is_told_from_no_input(session: SparkSession, tmp_path: Path) -> None:
    """While a sink blocks, its epoch is running and grows older; after it, without input, no epoch is running."""
    folder, goes_on = tmp_path / "in", threading.Event()
    session.range(40).selectExpr("id % 5 as k").write.parquet(str(folder))
    counted = session.readStream.schema("k long").parquet(str(folder)).groupBy("k").agg(F.count("*"))
    writer = binshift.writeStream(counted, bins=32, workers=2).outputMode("update")

    def collect(df: DataFrame, epoch: int) -> None:
        if goes_on.wait(240.0):
            df.collect()

    writer = writer.foreachBatch(collect)
    with serve(ControlSettings(tokens=Tokens(TOKEN))) as control:
        api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)

        def dataflow() -> Any:
            return api.get("/v1/dataflow").raise_for_status().json()

        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert isinstance(query, StreamingQuery)
        control.attach(query)
        seen = awaited(dataflow, lambda seen: seen["underWay"] is not None and seen["underWay"]["part"] == "job")
        assert (seen["epoch"], seen["underWay"]["epoch"], seen["underWay"]["runs"]) == (-1, 0, 1)
        awaited(dataflow, lambda later: later["underWay"]["seconds"] > seen["underWay"]["seconds"])
        goes_on.set()
        awaited(dataflow, lambda seen: seen["epoch"] >= 0 and seen["underWay"] is None)
        query.stop()
