"""The query that users get has the type of a PySpark query, for the program and for its type checker."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery as SparkStreamingQuery
from test_query_stopping import Coordinator, OneFunction

import binshift
from binshift.engine.dataflow import Dataflow
from binshift.spark.frontend.dataflow import StreamingQuery
from binshift.spark.jobs.input_meter import InputMeter
from binshift.spark.session.progress import Reports


def spark_program(query: SparkStreamingQuery) -> dict[str, Any]:
    """What a typed program reads of a PySpark query; `make types` checks it."""
    query.processAllAvailable()
    query.explain()
    return {
        "name": query.name,
        "id": query.id,
        "runId": query.runId,
        "keys": set(query.status),
        "active": query.isActive,
    }


def binshift_program(query: binshift.StreamingQuery) -> bool | None:
    """A typed program that uses both; `make types` checks it."""
    query.rescale(4).wait()
    query.await_epoch(query.epoch + 1)
    spark_program(query)
    query.stop()
    return query.awaitTermination(1)


def test_a_query_has_the_type_of_a_pyspark_query(spark: SparkSession, tmp_path: Path) -> None:
    """Methods that binshift does not change give the results of Spark's query, and unknown names are errors."""
    (tmp_path / "words.txt").write_text("one\n")
    underlying = spark.readStream.text(str(tmp_path)).writeStream.format("noop").queryName("typed").start()
    nothing = cast(Any, None)
    dataflow = Dataflow(nothing, cast(Any, Coordinator()), nothing, OneFunction(lambda: None), nothing)
    query = StreamingQuery(
        underlying, spark, dataflow, Reports(deque()), InputMeter(None, None), nothing, lambda: None, lambda: None
    )
    try:
        assert isinstance(query, binshift.StreamingQuery)
        assert spark_program(query) == spark_program(underlying)
        assert (query.name, query.isActive) == ("typed", True)
        assert not hasattr(query, "no_such_name")
    finally:
        underlying.stop()
    assert query.awaitTermination() is None
    assert not query.isActive
