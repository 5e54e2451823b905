"""The standard error of the JVM of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def capture_java_stderr(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """Capture it; the result is a function that returns the text so far."""
    java = spark._jvm.java  # type: ignore[union-attr]
    captured, before = java.io.ByteArrayOutputStream(), java.lang.System.err
    java.lang.System.setErr(java.io.PrintStream(captured, True))
    try:
        yield lambda: str(captured.toString())
    finally:
        java.lang.System.setErr(before)
