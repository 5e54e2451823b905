"""The conf that a process was started with, without what its program sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from binshift.settings import resolve
from binshift.spark import conf

KEY = "spark.binshift.maxEpoch"


def test_the_file_of_the_process_counts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has a folder of conf; elsewhere there is only the session's."""
    spark.conf.set(KEY, "2s")
    try:
        assert resolve(conf.given(spark)).max_epoch == 2.0
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
        assert resolve(conf.given(spark)).max_epoch == 2.0
        (tmp_path / "spark-defaults.conf").write_text("spark.app.name x\n")
        assert resolve(conf.given(spark)).max_epoch is None
        (tmp_path / "spark-defaults.conf").write_text("spark.binshift.maxepoch   500ms\n")
        assert resolve(conf.given(spark)).max_epoch == 0.5
    finally:
        spark.conf.unset(KEY)
