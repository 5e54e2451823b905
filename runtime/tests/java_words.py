"""What the JVM beside a test says on its standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def java_words(spark: SparkSession) -> Iterator[Callable[[], str]]:
    """Keep it meanwhile; what is given tells what was said so far."""
    java = spark._jvm.java  # type: ignore[union-attr]
    said, before = java.io.ByteArrayOutputStream(), java.lang.System.err
    java.lang.System.setErr(java.io.PrintStream(said, True))
    try:
        yield lambda: str(said.toString())
    finally:
        java.lang.System.setErr(before)
