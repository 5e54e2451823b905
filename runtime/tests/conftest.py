"""What tests of several parts need: one small Spark session for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNTIME = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two task slots in this process, no web page, two shuffle partitions; a test that changes its conf puts it back."""
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
