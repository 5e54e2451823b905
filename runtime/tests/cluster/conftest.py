"""A real local Spark cluster for the tests in this folder: one master, four workers, one session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from binshift.local import LocalCluster
from binshift.spark import conf

WORKERS = 4


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four worker processes on loopback addresses of their own."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), WORKERS) as started:
        yield started


@pytest.fixture(scope="session")
def session(cluster: LocalCluster) -> Iterator[SparkSession]:
    """A session on the cluster, with the conf binshift needs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(cluster.url).appName("cluster tests")
    small = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in (cluster.conf() | conf.required() | small).items():
        builder = builder.config(key, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()
