"""Fixtures of several parts: one small Spark session inside the test's process, or one on a real local cluster.

A process can hold only one of the two, so the cluster's tests run in a separate pytest process (see the Makefile).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster_core import mark_core

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binshift.local import LocalCluster
    from binshift.spark.plan.template import Templates
    from binshift.spark.session.jvm import Jvm

collect_ignore = ["faulty_disk_server.py"]
"""A separate program. Importing it loads libfuse, which may be missing; its tests are then skipped."""

RUNTIME = Path(__file__).resolve().parent.parent
CLUSTER_WORKERS = 4
STANDING = os.environ.get("BINSHIFT_STANDING") != "0"
"""Whether queries in the tests' session run in standing tasks unless they set it themselves; not with `make test-cluster STANDING=0`."""
LONGEST_SECONDS = {"cluster": 600, "oracle": 1200, "campaign": 1800}
"""The time limits of tests with a marker; tests without a marker have the limit in pyproject.toml. They include fixtures: the last
test of the campaign also finishes the worlds of all the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start Spark, and give tests on a real cluster more time than others, which are in a folder of their own."""
    mark_core(items)
    for item in items:
        if item.get_closest_marker("cluster") and item.path.parent.name != "cluster":
            raise pytest.UsageError(
                f"{item.nodeid} is marked `cluster`: no target runs it; move it to runtime/tests/cluster"
            )
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        seconds = [longest for name, longest in LONGEST_SECONDS.items() if item.get_closest_marker(name)]
        if seconds and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(seconds)))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two task slots in this process, no web page, two shuffle partitions; a test that changes its conf restores it."""
    from pyspark.sql import SparkSession

    from binshift.java import java_home

    os.environ.setdefault("JAVA_HOME", java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        # Compiling Java for every small plan takes longer than interpreting it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(RUNTIME),
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Jvm:
    """binshift's classes in the session's JVM."""
    from binshift.spark.session.jvm import install

    return install(spark)


@pytest.fixture(scope="module")
def templates(spark: SparkSession) -> Templates:
    """Those of the session."""
    from plan_world import templates_of

    return templates_of(spark)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A Spark master and four worker processes, each on its own loopback address."""
    from binshift.local import LocalCluster

    with LocalCluster(tmp_path_factory.mktemp("cluster"), CLUSTER_WORKERS, cores=3) as started:
        yield started


@pytest.fixture(scope="session")
def session(cluster: LocalCluster) -> Iterator[SparkSession]:
    """A session on the cluster, with the conf that binshift needs."""
    from pyspark.sql import SparkSession

    from binshift import cds, failpoints
    from binshift.java import QUICK_TO_START
    from binshift.spark import conf

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(cluster.url).appName("cluster tests")
    small = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.binshift.standingTasks": str(STANDING).lower(),
    }
    points = {f"spark.executorEnv.{failpoints.VARIABLE}": str(cluster.directory / "failpoints")}
    for key, value in (cds.spark_conf(QUICK_TO_START) | cluster.conf() | conf.required() | small | points).items():
        builder = builder.config(key, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


@pytest.fixture
def points(cluster: LocalCluster) -> Iterator[Path]:
    """The folder of the executors' failpoints, which exists during the test only."""
    folder = cluster.directory / "failpoints"
    folder.mkdir()
    yield folder
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
