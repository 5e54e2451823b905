# ruff: noqa: N802, N803 (PySpark's own names, for methods and for their parameters)
"""`writeStream` of a program with state: PySpark's own writer, except that `start` starts binshift's query.

Every call also goes to PySpark's writer, which rejects what Spark rejects. Nothing is written, and no sink is created, before
`start`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from binshift.errors import InvalidQuery, Unsupported
from binshift.log.storage.locations import check_location
from binshift.settings import is_setting, resolve
from binshift.spark.frontend import host, query
from binshift.spark.frontend.dataflow import StreamingQuery
from binshift.spark.frontend.definition import Definition
from binshift.spark.session.checkpoint import CHECKPOINT_OPTION, chosen_location
from binshift.spark.session.jvm import check_file_system
from binshift.spark.sinks import (
    BatchFunction,
    FileSink,
    ForeachBatchSink,
    ForeachSink,
    RowFunction,
    RowWriter,
    Sink,
    TableSink,
    sink_for,
)
from binshift.spark.stages.compiling import check_by_spark

DEFAULT_FORMAT_CONF = "spark.sql.sources.default"

Primitive = bool | float | int | str | None


class StatefulStreamWriter(DataStreamWriter):
    """As `pyspark.sql.streaming.DataStreamWriter`; made by `binshift.writeStream`.

    Args:
        frame: a streaming frame with state.
        keywords: settings given to `binshift.writeStream`.
    """

    def __init__(self, frame: DataFrame, keywords: Mapping[str, object]) -> None:
        super().__init__(frame)
        self._keywords = keywords
        self._target: str | Sink | None = None
        self._output_mode = "append"
        self._query_name: str | None = None
        self._partition_by: tuple[str, ...] = ()
        self._trigger: dict[str, str | bool] = {}
        self._options: dict[str, str] = {}

    def queryName(self, queryName: str) -> StatefulStreamWriter:
        """As `DataStreamWriter.queryName`; also the name in binshift's log."""
        super().queryName(queryName)
        self._query_name = queryName
        return self

    def format(self, source: str | Sink) -> StatefulStreamWriter:
        """As `DataStreamWriter.format`: see `binshift.spark.sinks`. A custom `Sink` is accepted as well."""
        if not isinstance(source, str) and not callable(getattr(source, "write", None)):
            raise InvalidQuery(f"format got {source!r}; it takes the name of a format")
        self._target = source
        return self

    def outputMode(self, outputMode: str) -> StatefulStreamWriter:
        """As `DataStreamWriter.outputMode`: "append" (default), "update" or "complete"."""
        super().outputMode(outputMode)
        self._output_mode = outputMode.lower()
        return self

    def option(self, key: str, value: Primitive) -> StatefulStreamWriter:
        """As `DataStreamWriter.option`; keys that start with "binshift." are settings of the query."""
        if value is not None:
            # As in Spark: keys are case-insensitive, and the last one counts.
            for known in [each for each in self._options if each.lower() == key.lower()]:
                del self._options[known]
            self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Primitive) -> StatefulStreamWriter:
        """As `DataStreamWriter.options`."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> StatefulStreamWriter:
        """As `DataStreamWriter.partitionBy`: names, or one list of them."""
        given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        wrong = [each for each in given if not isinstance(each, str)]
        if wrong:
            raise InvalidQuery(f"partitionBy got {wrong[0]!r}; it takes column names")
        self._partition_by = tuple(given)
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> StatefulStreamWriter:
        """As `DataStreamWriter.trigger`: one of processingTime, availableNow or once.

        Raises:
            Unsupported: continuous or realTime.
        """
        for name, value in (("continuous", continuous), ("realTime", realTime)):
            if value is not None:
                raise Unsupported(
                    f"trigger({name}=...) is not supported: binshift works by micro-batches; use trigger(processingTime='0 seconds')"
                )
        choices = {"processingTime": processingTime, "once": once, "availableNow": availableNow}
        chosen: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
        super().trigger(**chosen)
        self._trigger = chosen
        return self

    def foreachBatch(self, func: BatchFunction) -> StatefulStreamWriter:
        """As `DataStreamWriter.foreachBatch`: ``func(DataFrame, epoch)``."""
        self._target = ForeachBatchSink(func)
        return self

    def foreach(self, f: RowFunction | RowWriter) -> StatefulStreamWriter:
        """As `DataStreamWriter.foreach`: a function of a row, or an object with process and perhaps open and close."""
        self._target = ForeachSink(f)
        return self

    def clusterBy(self, *cols: Any) -> StatefulStreamWriter:
        """Not supported.

        Raises:
            Unsupported: always.
        """
        raise Unsupported("writeStream.clusterBy is not supported: use foreachBatch with df.writeTo(table)")

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Primitive,
    ) -> StreamingQuery:
        """As `DataStreamWriter.toTable`: each epoch is appended; errors as in `start`."""
        named = {"outputMode": outputMode, "partitionBy": partitionBy, "format": format, "queryName": queryName}
        self._set(named, options)
        form = self._target if isinstance(self._target, str) else None
        passed = {key: value for key, value in self._own_options().items() if key.lower() != "path"}
        self._target = TableSink(tableName, form, passed, self._partition_by)
        self._partition_by = ()
        return self._start()

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: str | list[str] | None = None,
        queryName: str | None = None,
        **options: Primitive,
    ) -> StreamingQuery:
        """As `DataStreamWriter.start`.

        Raises:
            InvalidQuery: the checkpoint location is missing; sink, output mode and operator do not fit; or the query already runs.
            InvalidSettings: a setting or the Spark conf is wrong, or there are too few task slots for another query.
            Unsupported: an aggregate that binshift does not support.
        """
        named = {"outputMode": outputMode, "partitionBy": partitionBy, "format": format, "queryName": queryName}
        self._set(named, options)
        if path is not None:
            self.option("path", path)
        return self._start()

    def _set(self, calls: Mapping[str, Any], options: Mapping[str, Primitive]) -> None:
        """Make PySpark's calls of these names, as far as they have an argument."""
        self.options(**options)
        for name, argument in calls.items():
            if argument is not None:
                getattr(self, name)(argument)

    def _own_options(self) -> Mapping[str, str]:
        """The options for the sink."""
        return {k: v for k, v in self._options.items() if not is_setting(k) and k.lower() != CHECKPOINT_OPTION.lower()}

    def _start(self) -> StreamingQuery:
        definition = self._definition()
        try:
            return query.start(definition, host.current())
        except BaseException:
            if definition.temporary:
                shutil.rmtree(definition.checkpoint_location, ignore_errors=True)
            raise

    def _definition(self) -> Definition:
        spark = self._df.sparkSession
        settings = resolve(spark.conf.getAll, self._keywords, self._options)
        check_by_spark(self._df, self._output_mode)
        sink = self._sink(self._own_options())
        given = chosen_location(spark, self._option(CHECKPOINT_OPTION), self._query_name, sink.name)
        location = check_location(given or tempfile.mkdtemp(prefix="binshift-checkpoint-"))
        check_file_system(spark, location)
        if isinstance(sink, FileSink):
            sink.open(spark, location, settings.restore_from, settings.adopt)
        return Definition(
            frame=self._df,
            settings=settings,
            query_name=self._query_name,
            sink=sink,
            output_mode=self._output_mode,
            checkpoint_location=location,
            temporary=given is None,
            trigger=self._trigger,
        )

    def _sink(self, options: Mapping[str, str]) -> Sink:
        spark = self._df.sparkSession
        target = spark.conf.get(DEFAULT_FORMAT_CONF) if self._target is None else self._target
        if target is None or isinstance(target, str):
            passed = {key: value for key, value in options.items() if key.lower() != "path"}
            return sink_for(
                spark,
                target or "parquet",
                self._df.schema,
                passed,
                query_name=self._query_name,
                path=self._option("path"),
                partition_by=self._partition_by,
                output_mode=self._output_mode,
            )
        if self._partition_by:
            raise InvalidQuery(f"partitionBy does not apply to {target.name}; it is for files")
        return target

    def _option(self, name: str) -> str | None:
        return next((value for key, value in self._options.items() if key.lower() == name.lower()), None)
