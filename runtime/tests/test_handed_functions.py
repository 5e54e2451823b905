"""Jobs leave nothing behind on the driver, however large their functions are and however they end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

from binshift.spark.jobs.collecting import LARGE_BYTES, collecting, handed

MIB = 1 << 20


def temporary(session: SparkSession) -> list[Path]:
    """The files in the driver's temporary folders of this application."""
    folder = Path(session.sparkContext._temp_dir)
    return [path for path in folder.rglob("*") if path.is_file()]


def job(session: SparkSession, size: int, fails: bool = False) -> list[object]:
    """One job whose function has this many bytes, like one with the file lists of many bins; returns what it collected."""
    content = os.urandom(size)
    with collecting(session.sparkContext) as collected, ExitStack() as shared:

        def carries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            collected.add([len(content)])
            if fails:
                raise ValueError("as a task may")

        frame = session.range(0, 2, 1, 2).mapInArrow(handed(session.sparkContext, carries, shared), "id long")
        with pytest.raises(Exception, match="as a task may") if fails else nullcontext():
            frame.write.format("noop").mode("append").save()
        return list(collected.value)


@pytest.mark.parametrize("fails", [False, True])
def test_large_functions_leave_no_files(spark: SparkSession, fails: bool) -> None:
    """Jobs of 3 MiB each, successful or failed, leave no file in the temporary folder, and no accumulator."""
    before, registered = temporary(spark), len(_accumulatorRegistry)
    for _ in range(3):
        found = job(spark, 3 * MIB, fails)
        assert fails or found == [3 * MIB] * 2
    assert temporary(spark) == before
    assert len(_accumulatorRegistry) == registered


def test_small_functions_are_not_broadcast(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary epoch has no cost for this."""
    monkeypatch.setattr(type(spark.sparkContext), "broadcast", None)
    assert job(spark, LARGE_BYTES // 2) == [LARGE_BYTES // 2] * 2
