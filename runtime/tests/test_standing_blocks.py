"""Blocks of rows between standing tasks, when the executor that has them is lost."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from binshift.spark.session.jvm import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def inbox(spark: SparkSession, *blocks: object) -> Any:
    """The rows of one exchange: of each block the host, the port, the executor and the name."""
    gateway: Any = spark.sparkContext._gateway
    exchange, exchanges = (gateway.new_array(gateway.jvm.Object, size) for size in (len(blocks), 1))
    for number, value in enumerate(blocks):
        exchange[number] = value
    exchanges[0] = exchange
    loader = install(spark).bridge.getClass().getClassLoader()
    arguments = gateway.new_array(gateway.jvm.Object, 1)
    arguments[0] = exchanges
    return loader.loadClass("dev.binshift.StandingRows$Inbox").getConstructors()[0].newInstance(arguments)


def test_a_block_of_a_lost_executor_is_not_waited_for(spark: SparkSession) -> None:
    """Its host takes connections and never answers: Spark's driver knows that the executor is lost."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = inbox(spark, "127.0.0.1", silent.getsockname()[1], "77", "input-1-1")
        with pytest.raises(Py4JJavaError) as failed:
            getattr(found, "await")()
    assert "FetchFailed: executor 77, which has a block of an epoch, is lost" in str(failed.value)


def test_an_order_without_blocks_begins_at_once(spark: SparkSession) -> None:
    """An epoch can have no rows for a task."""
    getattr(inbox(spark), "await")()
