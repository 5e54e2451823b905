"""What binshift calls in the JVM beyond PySpark's public interface, so that a new Spark version breaks one module.

Most of it are binshift's own classes, compiled once per application (`java_classes`) and registered with `ADD JAR`: the driver finds
them through the session's class loader, and executors fetch the jar.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import attrgetter
from typing import Any, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function
from pyspark.sql.utils import ForeachBatchFunction
from pyspark.util import PythonEvalType

from binshift import s3
from binshift.errors import InvalidSettings, TaskFailed
from binshift.spark.session.java_classes import jar_of

NUDGE_FORMAT = "dev.binshift.NudgeSource"
BATCH_FORMAT = "dev.binshift.BatchSink"
STAGED_FILES = "dev.binshift.StagedFiles"
COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"

Filling = Sequence[tuple[DataFrame, DataFrame]]
"""Holes of a template, and the frames with their rows."""

_installed: WeakKeyDictionary[object, Jvm] = WeakKeyDictionary()
_lock = threading.RLock()
"""Several threads may start queries at once, and the classes of an application are compiled once."""


class Jvm:
    """Handles on the compiled classes in one application; get it from `install`."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        spark.sql(f"ADD JAR '{jar_of(self._jvm)}'")
        self.bridge: Any = self._class("dev.binshift.Bridge").newInstance()
        """What Python calls."""
        self.starting = threading.Lock()
        """Held while a stream starts with a conf of its own; threads share their session."""
        self._functions: dict[tuple[str, ...], Any] = {}

    def _class(self, name: str) -> Any:
        return self._jvm.org.apache.spark.util.Utils.classForName(name, True, False)

    def pin(self, frame: DataFrame, locations: Sequence[str]) -> DataFrame:
        """``frame`` with partition ``i`` computed on the executor ``locations[i]`` ("executor_host_id"), modulo their number.

        Needs `spark.shuffle.reduceLocality.enabled=false` and a long `spark.locality.wait`. If the executor is gone,
        Spark runs the task anywhere: the task itself must check.
        """
        session = frame.sparkSession
        return DataFrame(self.bridge.pin(java_session(session), java_frame(frame), ",".join(locations)), session)

    def pin_filled(self, template: DataFrame, filling: Filling, time_ms: int, locations: Sequence[str]) -> DataFrame:
        """`fill`, and then `pin`; where nothing else changes from epoch to epoch, the template is planned once."""
        pairs, session = self.pairs(filling), filling[-1][1].sparkSession
        java = self.bridge.pinFilled(java_session(session), java_frame(template), pairs, time_ms, ",".join(locations))
        return DataFrame(java, session)

    def map_in_arrow(self, frame: DataFrame, function: Any, schema: StructType) -> DataFrame:
        """`DataFrame.mapInArrow`, which calls the JVM for each column, and dozens of times for the function."""
        context: Any = frame.sparkSession.sparkContext
        command: bytes = CloudPickleSerializer().dumps((function, schema))  # type: ignore[no-untyped-call]
        broadcasts = self.bridge.list()
        for each in context._pickled_broadcast_vars:
            broadcasts.append(each._jbroadcast)
        context._pickled_broadcast_vars.clear()
        like, kind = self._environment(context), PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        java = self.bridge.mapInArrow(java_frame(frame), like, bytearray(command), broadcasts, schema.json(), kind)
        return DataFrame(java, frame.sparkSession)

    def _environment(self, context: Any) -> Any:
        """A Python function of the JVM, with the environment and the files that this application's functions have now."""
        files = tuple(context._python_includes)
        if files not in self._functions:
            self._functions = {files: _wrap_function(context, _nothing, None)}
        return self._functions[files]

    def executors(self, context: SparkContext) -> list[tuple[str, str, int]]:
        """The id, the host with its port, and the cores of each active executor, the driver's own included."""
        lines = str(self.bridge.executors(cast(Any, context)._jsc)).splitlines()
        return [(id, host, int(cores)) for id, host, cores in (line.split("\t") for line in lines)]

    def clone_session(self, spark: SparkSession) -> SparkSession:
        """A session with the user's conf, functions and views, whose conf can be changed; Spark gives each query such a clone."""
        java: Any = spark
        return SparkSession(spark.sparkContext, java._jsparkSession.cloneSession())

    def frame(self, spark: SparkSession, plan: Any) -> DataFrame:
        """The frame of an analysed plan, which is not analysed again."""
        return DataFrame(self.bridge.frame(java_session(spark), plan), spark)

    def hole(self, spark: SparkSession, attributes: Any) -> DataFrame:
        """A frame without rows for a template; see `binshift.spark.plan.template`."""
        return DataFrame(self.bridge.hole(java_session(spark), attributes), spark)

    def fill(self, template: DataFrame, filling: Filling, time_ms: int | None) -> DataFrame:
        """``template`` with the second frame of each pair in the place of the first, in the session of the last.

        The current time, wherever it is used, becomes ``time_ms`` (milliseconds since 1970), unless that is None, as in Spark.
        """
        session = filling[-1][1].sparkSession
        java = self.bridge.fill(java_session(session), java_frame(template), self.pairs(filling), time_ms)
        return DataFrame(java, session)

    def pairs(self, filling: Filling) -> Any:
        """A Java list of holes and their frames, in turn."""
        first, *others = filling
        pairs = self.bridge.pair(*map(java_frame, first))
        pairs.extend(map(java_frame, chain.from_iterable(others)))
        return pairs

    def optimize(self, plan: Any, rules: Sequence[str]) -> Any:
        """An analysed plan without common table expressions, after some of the optimiser's rules, by their names within Catalyst."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst
        plan = catalyst.optimizer.InlineCTE(True, False, False).apply(plan)
        for rule in rules:
            plan = attrgetter(f"{rule}$")(catalyst).__getattr__("MODULE$").apply(plan)
        return plan

    def scala_sequence(self, values: list[Any]) -> Any:
        """A Scala sequence of Java objects."""
        return self._jvm.PythonUtils.toSeq(values)

    def next_watermark(self, spark: SparkSession, query: str) -> int:
        """Spark's watermark for the batch after the running one, all rows of which have been read.

        Spark computes it when the batch has ended, which is too late to request another batch.

        Args:
            spark: the session that started the query.
            query: Spark's id of the query.
        """
        return int(self.bridge.nextWatermark(java_session(spark), query))

    def wake_up(self, name: str, *, require_final_epoch: bool = False) -> None:
        """The query of nudge source ``name`` runs one more epoch, if required even after its last input (AvailableNow)."""
        self.bridge.wakeUp(name, require_final_epoch)

    def wake_up_at(self, name: str, time_ms: int | None) -> None:
        """Move that offset when Spark's clock reaches ``time_ms`` (milliseconds since 1970); None: not at any time."""
        self.bridge.wakeUpAt(name, -1 if time_ms is None else time_ms)

    def foreach_batch(
        self, writer: DataStreamWriter, spark: SparkSession, name: str, function: Callable[[DataFrame, int], None]
    ) -> DataStreamWriter:
        """`DataStreamWriter.foreachBatch`, with a sink that does not compute the rows before they are read; ``name`` is the query's."""
        context: Any = spark.sparkContext
        self.bridge.batchFunction(name, ForeachBatchFunction(spark, function))
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        return writer.format(BATCH_FORMAT).option("function", name)

    def forget(self, name: str) -> None:
        """Release the nudge source ``name``; its query has ended."""
        with suppress(Exception):  # any py4j error: Spark may have ended
            self.bridge.forget(name)

    def await_interrupt(self, seconds: float) -> None:
        """Let this thread's Java thread sleep until it is interrupted; Spark interrupts a query's thread when it stops the query."""
        with suppress(Py4JJavaError):
            self._jvm.java.lang.Thread.sleep(round(1000 * seconds))

    @contextmanager
    def staged_files(self, spark: SparkSession) -> Iterator[None]:
        """Files written in this context, in this session, are written by `StagedFiles`; see `written`."""
        before = spark.conf.get(COMMIT_PROTOCOL, None)
        spark.conf.set(COMMIT_PROTOCOL, STAGED_FILES)
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(COMMIT_PROTOCOL)
            else:
                spark.conf.set(COMMIT_PROTOCOL, before)

    def written(self, folder: str) -> str:
        """The files that tasks have written to a folder: for each file a line with its size, a tab and its name.

        Raises:
            TaskFailed: no job has reported files for it; that is not the same as a job without files.
        """
        lines = self.bridge.written(folder)
        if lines is None:
            raise TaskFailed(
                f"no job has reported its files in {folder}: Spark did not write it by {STAGED_FILES}; does the program "
                f"change {COMMIT_PROTOCOL} while its query runs?"
            )
        return str(lines)


def _nothing() -> None:
    """A function that is not called."""


def java_session(spark: SparkSession) -> Any:
    """The JVM's session."""
    return cast(Any, spark)._jsparkSession


def java_frame(frame: DataFrame) -> Any:
    """The JVM's frame."""
    return cast(Any, frame)._jdf


def check_file_system(spark: SparkSession, location: str) -> None:
    """Reject a location that Spark cannot read; the message has the fix.

    Raises:
        InvalidSettings: it is on S3, and Spark has no file system for S3.
    """
    java: Any = spark._jvm
    if location.startswith("s3") and not java.org.apache.spark.util.Utils.classIsLoadable(s3.FILE_SYSTEM):
        raise InvalidSettings(
            f"the checkpoint is at {location}, and this Spark has no file system for S3: use binshift's spark image, or let "
            "SPARK_DIST_CLASSPATH name the jars that `scripts/s3-jars.sh DIRECTORY` fetches, as DIRECTORY/*"
        )


def install(spark: SparkSession) -> Jvm:
    """Compile the classes once per application and register them for the calling thread.

    Spark resolves classes with the class loader of a JVM thread, and each Python thread has its own JVM thread; `ADD JAR` sets
    the class loader of the calling thread only.
    """
    context, session = spark.sparkContext, cast(Any, spark)
    with _lock:
        if context not in _installed:
            _installed[context] = Jvm(spark)
    loader = session._jsparkSession.sharedState().jarClassLoader()
    session._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
    return _installed[context]
