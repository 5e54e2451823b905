"""Sinks: the destinations of an epoch's result, and their guarantees when an epoch runs again.

| sink | guarantee | result drained before | an epoch that runs again |
|---|---|---|---|
| `console` | at least once, duplicates recognisable by epoch | yes | is printed again, with its number |
| `memory` | idempotent by epoch | no | replaces its rows |
| `parquet`, `orc`, `json`, `csv`, `text`, `avro`, `xml` | files, as Spark's sink writes them | no | leaves its files as they are |
| files in update or complete mode | files, one directory per epoch | no | leaves `epoch=N/` as it is |
| `kafka` | at least once, duplicates recognisable by epoch | no | is sent again, with the epoch in the header `binshift-epoch` |
| `noop` | idempotent by epoch | no | leaves nothing either time |
| `foreachBatch` | at least once, duplicates recognisable by epoch | yes | your function gets the same rows and epoch again |
| `foreach` | at least once, duplicates recognisable by epoch | no | `open` gets the same partition and epoch again |
| `toTable` | at least once, duplicates recognisable by epoch | yes | is appended again |
| any other format | at least once, duplicates recognisable by epoch | yes | is appended again |

A function that is idempotent by (partition and) epoch makes `foreachBatch` and `foreach` exactly once. All of this
assumes deterministic user functions, as Spark does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery
from binshift.spark.sinks.console import ConsoleSink
from binshift.spark.sinks.contract import Guarantee, Sink
from binshift.spark.sinks.files import FILE_FORMATS, FileSink
from binshift.spark.sinks.formats import FormatSink, KafkaSink, NoopSink, TableSink
from binshift.spark.sinks.functions import BatchFunction, ForeachBatchSink, ForeachSink, RowFunction, RowWriter
from binshift.spark.sinks.memory import MemorySink

__all__ = [
    "BatchFunction",
    "ConsoleSink",
    "FileSink",
    "ForeachBatchSink",
    "ForeachSink",
    "FormatSink",
    "Guarantee",
    "KafkaSink",
    "MemorySink",
    "NoopSink",
    "RowFunction",
    "RowWriter",
    "Sink",
    "TableSink",
    "sink_for",
]


def sink_for(
    spark: SparkSession,
    format: str,
    schema: StructType,
    options: Mapping[str, str],
    *,
    query_name: str | None = None,
    path: str | None = None,
    partition_by: Sequence[str] = (),
    output_mode: str = "append",
) -> Sink:
    """The sink of a format's name; Spark resolves a name that is not in this package.

    Args:
        spark: the user's session.
        format: in any case.
        schema: of the results.
        options: for the format.
        query_name: names the view of the memory sink.
        path: for formats that have one.
        partition_by: for formats that have it.
        output_mode: decides about the layout of files.

    Raises:
        InvalidQuery: an argument does not fit the format.
    """
    name = format.lower()
    if name in FILE_FORMATS:
        return FileSink(name, path, schema.names, partition_by, options, by_epoch=output_mode != "append")
    if partition_by and name in ("console", "kafka", "memory", "noop"):
        raise InvalidQuery(f"partitionBy does not apply to format({format!r}); it is for files")
    match name:
        case "console":
            return ConsoleSink(options)
        case "kafka":
            return KafkaSink(options, schema.names)
        case "memory":
            if query_name is None:
                raise InvalidQuery("format('memory') needs queryName(...): the name of its table")
            return MemorySink(schema, spark, query_name)
        case "noop":
            return NoopSink()
        case _:
            return FormatSink(format, options, path, partition_by)
