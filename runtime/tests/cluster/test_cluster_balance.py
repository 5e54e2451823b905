"""Hot bins on a real cluster are balanced by their records, in a rebalance and in a rescale, through the control API."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import awaiting
import httpx2
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.control import ControlSettings, Tokens, serve
from binshift.spark.plan.routing_columns import bin_of

pytestmark = pytest.mark.cluster

TOKEN = "admin-token-0123456789"
BINS = 64
HOT = 32
HOT_RECORDS = 0.9
BOUND = 1.1
"""The planner's bound; it holds because no bin weighs a tenth of a worker's mean load."""
CYCLE_EPOCHS = 4096
"""Longer than the test: the bytes of bins stay unknown, and only records count."""
awaited = partial(awaiting.awaited, seconds=180.0)


def hot_names(session: SparkSession) -> dict[int, str]:
    """A name for each of the bins that a new query of two workers has on worker 0."""
    names = session.range(2000).select(F.concat(F.lit("h"), F.col("id")).alias("name"))
    found = names.select("name", bin_of([F.col("name")], BINS).alias("bin")).where(F.col("bin") < HOT).collect()
    return {row["bin"]: row["name"] for row in found}


def started(session: SparkSession, names: list[str], path: Path) -> Any:
    """A sketch by name, so that all records reach the owner of their bin; nine tenths of them have the hot names."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 12_000).option("numPartitions", 2)
    hot = F.element_at(F.array(*map(F.lit, names)), (F.floor(F.col("value") / 10) % HOT + 1).cast("int"))
    name = F.when(F.col("value") % 10 != 0, hot).otherwise(F.concat(F.lit("u"), F.col("value") % 500))
    counted = source.load().select(name.alias("name"), "value").groupBy("name").agg(F.approx_count_distinct("value"))
    writer = (
        binshift.writeStream(counted, bins=BINS, workers=2, snapshot_cycle_epochs=CYCLE_EPOCHS)
        .outputMode("update")
        .format("noop")
        .queryName("hot")
    )
    return writer.option("checkpointLocation", str(path)).start()


def test_hot_bins_are_shared(session: SparkSession, tmp_path: Path) -> None:
    """All of them are on one of two workers; after a rebalance, and after a rescale to three, no worker is above the bound."""
    names = hot_names(session)
    assert len(names) == HOT
    with serve(ControlSettings(tokens=Tokens(TOKEN))) as control, ExitStack() as ending:
        api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)

        def settled(migration: Any) -> Any:
            def observe() -> Any:
                return api.get(f"/v1/migrations/{migration['id']}").raise_for_status().json()

            done = awaited(observe, lambda seen: seen["endedAt"] is not None)
            assert done["phase"] == "settled", done
            return done

        def loads() -> list[float]:
            found = defaultdict[int, float](float)
            for each in api.get("/v1/bins").json()["bins"]:
                found[each["worker"]] += HOT_RECORDS / HOT * (each["bin"] in names) + (1 - HOT_RECORDS) / BINS
            return [load * len(found) for _, load in sorted(found.items())]

        query = started(session, list(names.values()), tmp_path)
        ending.callback(query.stop)
        control.attach(query)
        awaited(lambda: query.epoch, lambda epoch: epoch >= 1)
        assert max(loads()) > 1.8
        answer = api.post("/v1/rebalance", json={"strategy": "Batched", "batchSize": 4})
        assert answer.status_code == 202, answer.text
        assert settled(answer.json()["migration"])["strategy"] == "Batched"
        assert len(loads()) == 2
        assert max(loads()) <= BOUND
        wanted = {"owner": "7d3c", "generation": 1, "workers": [0, 1, 2]}
        settled(api.put("/v1/target", json=wanted).raise_for_status().json()["migration"])
        assert len(loads()) == 3
        assert max(loads()) <= BOUND
        again = settled(api.post("/v1/rebalance").json()["migration"])
        assert again["binsTotal"] == 0
        assert "already balanced" in again["reason"]
        dataflow = api.get("/v1/dataflow").json()
        assert dataflow["target"]["owner"] == "7d3c"
        assert dataflow["rates"]["sourceRowsPerSecond"] > 4 * dataflow["rates"]["inputRowsPerSecond"]
