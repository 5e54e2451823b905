# ruff: noqa: N802, N803 (PySpark's own names, for methods and for their parameters)
"""`writeStream` of a stateful frame: sets the destination of results and starts the query.

The methods are PySpark's. Invalid arguments are rejected here, before anything runs, by Spark's own check where it has one.
Nothing is written, and no sink is created, before `start`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from binshift.errors import InvalidQuery
from binshift.settings import CHECKPOINT_CONF, is_setting, resolve
from binshift.spark import host, query
from binshift.spark.checkpoint import check_location, same_location
from binshift.spark.dataflow import StreamingQuery
from binshift.spark.definition import ArrowState, Call, Definition, Operator, WriterOptions
from binshift.spark.grouped import checked_output_mode
from binshift.spark.jvm import check_file_system
from binshift.spark.sinks import (
    BatchFunction,
    FileSink,
    ForeachBatchSink,
    ForeachSink,
    RowFunction,
    RowWriter,
    Sink,
    refuse_old_output,
    sink_for,
)
from binshift.spark.streaming_plan import check_output_mode
from binshift.spark.unsupported import unsupported

CHECKPOINT_OPTION = "checkpointLocation"
CHECKPOINTS_CONF = "spark.sql.streaming.checkpointLocation"
DEFAULT_FORMAT_CONF = "spark.sql.sources.default"

Primitive = bool | float | int | str | None


class StatefulStreamWriter:
    """As `pyspark.sql.streaming.DataStreamWriter`; made by `StatefulFrame.writeStream`.

    Args:
        stand_in: the analysed query, for its schema and for Spark's checks.
        source: the stream before the operator.
        operator: the stateful part.
        after: calls on each epoch's result.
        keywords: settings given to `stateful`.
    """

    def __init__(
        self,
        stand_in: DataFrame,
        source: DataFrame,
        operator: Operator,
        after: tuple[Call, ...],
        keywords: Mapping[str, object],
    ) -> None:
        self._stand_in = stand_in
        self._source = source
        self._operator = operator
        self._after = after
        self._keywords = keywords
        self._target: str | Sink | None = None
        self._output_mode = "append"
        self._query_name: str | None = None
        self._partition_by: tuple[str, ...] = ()
        self._trigger: dict[str, str | bool] = {}
        self._options: dict[str, str] = {}

    def queryName(self, queryName: str) -> StatefulStreamWriter:
        """As `DataStreamWriter.queryName`; also the name in binshift's log."""
        self._spark_checks().queryName(queryName)
        self._query_name = queryName
        return self

    def format(self, source: str | Sink) -> StatefulStreamWriter:
        """As `DataStreamWriter.format`: see `binshift.spark.sinks`. A custom `Sink` is accepted as well."""
        if not isinstance(source, str) and not callable(getattr(source, "write", None)):
            raise InvalidQuery(f"format got {source!r}; it takes the name of a format")
        self._target = source
        return self

    def outputMode(self, outputMode: str) -> StatefulStreamWriter:
        """As `DataStreamWriter.outputMode`: "append" (default) or "update".

        Raises:
            Unsupported: "complete".
        """
        self._output_mode = checked_output_mode(outputMode)
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
                instead = "binshift works by micro-batches; use trigger(processingTime='0 seconds')"
                raise unsupported("StatefulStreamWriter", f"trigger({name}=...)", instead)
        choices = {"processingTime": processingTime, "once": once, "availableNow": availableNow}
        chosen: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
        self._spark_checks().trigger(**chosen)
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

    def clusterBy(self, *cols: object) -> StatefulStreamWriter:
        """Not supported.

        Raises:
            Unsupported: always.
        """
        raise unsupported("StatefulStreamWriter", "clusterBy", "use foreachBatch with df.writeTo(table)")

    def toTable(self, tableName: str, *args: object, **kwargs: object) -> StreamingQuery:
        """Not supported.

        Raises:
            Unsupported: always.
        """
        instead = f"use foreachBatch(lambda df, epoch: df.writeTo({tableName!r}).append())"
        raise unsupported("StatefulStreamWriter", "toTable", instead)

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
        self.options(**options)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        if queryName is not None:
            self.queryName(queryName)
        if path is not None:
            self.option("path", path)
        definition = self._definition()
        return query.start(definition, self._writer_options(definition), host.current())

    def _definition(self) -> Definition:
        conf = self._stand_in.sparkSession.conf.getAll
        settings = resolve(conf, self._keywords, self._options)
        if isinstance(self._operator, ArrowState) and self._operator.output_mode != self._output_mode:
            raise InvalidQuery(
                f"applyInArrowWithState was given the output mode {self._operator.output_mode!r} and the writer "
                f"{self._output_mode!r}; they must be the same"
            )
        check_output_mode(self._stand_in, self._output_mode)
        return Definition(self._source, self._operator, self._after, settings, self._stand_in.schema)

    def _writer_options(self, definition: Definition) -> WriterOptions:
        checkpoint = check_location(self._checkpoint_location())
        check_file_system(self._stand_in.sparkSession, checkpoint)
        options = {
            k: v for k, v in self._options.items() if not is_setting(k) and k.lower() != CHECKPOINT_OPTION.lower()
        }
        sink = self._sink(definition, options)
        if isinstance(sink, FileSink):
            refuse_old_output(self._stand_in.sparkSession, sink.path, checkpoint)
        return WriterOptions(self._query_name, sink, self._output_mode, checkpoint, self._trigger, options)

    def _sink(self, definition: Definition, options: Mapping[str, str]) -> Sink:
        spark = self._stand_in.sparkSession
        target = spark.conf.get(DEFAULT_FORMAT_CONF) if self._target is None else self._target
        if target is None or isinstance(target, str):
            passed = {key: value for key, value in options.items() if key.lower() != "path"}
            return sink_for(
                spark,
                target or "parquet",
                definition.schema,
                passed,
                query_name=self._query_name,
                path=self._option("path"),
                partition_by=self._partition_by,
            )
        if self._partition_by:
            raise InvalidQuery(f"partitionBy does not apply to {target.name}; it is for files")
        return target

    def _checkpoint_location(self) -> str:
        given, assigned = self._option(CHECKPOINT_OPTION), self._stand_in.sparkSession.conf.get(CHECKPOINT_CONF, None)
        if assigned:
            if given and not same_location(given, assigned):
                raise InvalidQuery(
                    f"the program chose the {CHECKPOINT_OPTION} {given!r}, but was started with {assigned!r} "
                    f"({CHECKPOINT_CONF}): leave the option out, or use os.environ['BINSHIFT_CHECKPOINT']"
                )
            return assigned
        if given:
            return given
        base = self._stand_in.sparkSession.conf.get(CHECKPOINTS_CONF, None)
        if base and self._query_name:
            return f"{base.rstrip('/')}/{self._query_name}"
        if base:
            raise InvalidQuery(
                f"{CHECKPOINTS_CONF} is set, but the query has no queryName(...) that identifies its part"
            )
        raise InvalidQuery(
            f"a stateful query needs a location for its log: option({CHECKPOINT_OPTION!r}, a directory or URL that driver "
            "and executors share)"
        )

    def _option(self, name: str) -> str | None:
        return next((value for key, value in self._options.items() if key.lower() == name.lower()), None)

    def _spark_checks(self) -> Any:
        """A Spark writer that is never started: its methods reject what Spark rejects."""
        return self._stand_in.writeStream
