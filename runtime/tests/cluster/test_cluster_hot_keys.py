"""A key with most of the rows is named on a real cluster: by standing tasks, and by those of Spark's jobs."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import awaiting
import httpx2
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import binshift
from binshift.control import ControlSettings, Tokens, serve
from binshift.engine.bin_records import COUNTED_EVERY_EPOCHS
from binshift.spark.plan.routing_columns import bin_of

pytestmark = pytest.mark.cluster

TOKEN = "admin-token-0123456789"
BINS = 64
HOT = "grüße, alice"
awaited = partial(awaiting.awaited, seconds=180.0)


def named_rows(session: SparkSession) -> DataFrame:
    """A stream in which seven tenths of the rows have one name, and one number."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10_000).option("numPartitions", 2)
    name = F.when(F.col("value") % 10 < 7, F.lit(HOT)).otherwise(F.concat(F.lit("u"), F.col("value")))
    return source.load().select(name.alias("name"), F.lit(7).alias("number"), "value")


def counted(rows: DataFrame) -> DataFrame:
    """Tasks aggregate before the exchange: the key is a few rows for its worker, and no limit."""
    return rows.groupBy("name", "number").agg(F.count("*"))


def distinct(rows: DataFrame) -> DataFrame:
    """All rows reach Python."""
    return rows.dropDuplicates(["name", "number"])


def names_a_key(least: int, dataflow: Any) -> bool:
    """Whether a key is hot, after an epoch."""
    return dataflow["epoch"] >= least and bool(dataflow["hotKeys"])


@pytest.mark.parametrize("keyed", [counted, distinct])
def test_a_hot_key_is_named(session: SparkSession, tmp_path: Path, keyed: Any) -> None:
    """The API has its text, bin, worker, share and rate, and the share of its bin; the metrics have the shares."""
    columns = [F.lit(HOT), F.lit(7)]
    bin = session.range(1).select(bin_of(columns, BINS).alias("bin")).first()["bin"]  # type: ignore[index]
    with serve(ControlSettings(tokens=Tokens(TOKEN))) as control, ExitStack() as ending:
        api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        rows = keyed(named_rows(session))
        writer = binshift.writeStream(rows, bins=BINS, workers=2).outputMode("update" if keyed is counted else "append")
        query: Any = writer.format("noop").queryName("hot").option("checkpointLocation", str(tmp_path)).start()
        ending.callback(query.stop)
        control.attach(query)

        def seen() -> Any:
            return api.get("/v1/dataflow").raise_for_status().json()

        # The tasks of the first epoch are those of a job, the later ones stand.
        for epoch in (0, COUNTED_EVERY_EPOCHS):
            dataflow = awaited(seen, partial(names_a_key, epoch))
            (hot,) = dataflow["hotKeys"]
            assert (hot["key"], hot["bin"]) == (f"{HOT}, 7", bin)
            assert hot["worker"] == query.route.owner(bin)
            assert hot["share"] == pytest.approx(0.7, abs=0.02)
            assert hot["rowsPerSecond"] == pytest.approx(0.7 * dataflow["rates"]["sourceRowsPerSecond"], rel=0.05)
        if keyed is counted:
            assert awaited(seen, lambda found: found["load"]["hottestBinShare"])["load"]["hottestBinShare"] < 0.1
        else:  # a share of the rows that reach operators, by two rates of which one is of a longer time
            hottest = pytest.approx(0.7, abs=0.03)
            load = awaited(seen, lambda found: found["load"]["hottestBinShare"] == hottest)["load"]
            assert load["hottestBinKey"] == f"{HOT}, 7"
