# ruff: noqa: N802, N803 (PySpark's own names, for methods and for their parameters)
"""`stateful(frame)`: a streaming DataFrame whose stateful operator is binshift's, with PySpark's method names.

A frame has two phases. Before its stateful operator it wraps the user's stream, and a stateless method is simply called
on it. After the operator no frame exists before an epoch has run, so calls are recorded and applied to every epoch's result.
They are also applied at once to a stand-in: the same query as Spark would run it, only analysed. Schema and errors are
therefore Spark's own, and errors are raised where the query is written.

Columns taken from a frame are unresolved, because they are used on another frame in every epoch. Frames are immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.settings import check_keywords
from binshift.spark.definition import Call, Operator
from binshift.spark.grouped import StatefulGroupedData
from binshift.spark.stage import quoted
from binshift.spark.stateless import StatelessMethods
from binshift.spark.streaming_plan import has_watermark, refuse_state, state_nodes
from binshift.spark.unsupported import FRAME, unsupported
from binshift.spark.writer import StatefulStreamWriter


def stateful(frame: DataFrame, **settings: object) -> StatefulFrame:
    """Begin a stateful query on a stream.

    Args:
        frame: a streaming DataFrame of a classic session, without stateful operators of Spark.
        settings: of `binshift.settings.Settings`, snake_case; options of the writer take precedence.

    Raises:
        Unsupported: ``frame`` is a Spark Connect frame, is not a stream, or has Spark state.
        InvalidSettings: an unknown setting, or one of the wrong type.
    """
    if isinstance(frame, StatefulFrame):
        raise InvalidQuery("stateful() got a StatefulFrame; call it once, on the DataFrame")
    if not isinstance(frame, DataFrame):
        raise InvalidQuery(f"stateful() got a {type(frame).__name__}; it takes a streaming pyspark.sql.DataFrame")
    if not hasattr(frame.sparkSession, "_jsparkSession"):
        raise Unsupported("Spark Connect has no access to the scheduler that pins tasks; use a classic SparkSession")
    if not frame.isStreaming:
        raise Unsupported(
            "stateful() got a DataFrame that is not a stream; use spark.readStream, or plain groupBy on it"
        )
    check_keywords(settings)
    refuse_state(frame)
    return StatefulFrame(frame, Recorded(keywords=settings))


@dataclass(frozen=True)
class Recorded:
    """What a frame holds in addition to Spark's plan.

    Attributes:
        keywords: settings given to `stateful`.
        source: the stream before the operator; None in the first phase.
        operator: None in the first phase.
        after: the calls of the second phase.
    """

    keywords: Mapping[str, object]
    source: DataFrame | None = None
    operator: Operator | None = None
    after: tuple[Call, ...] = ()


class StatefulFrame(StatelessMethods):
    """A stream with, or about to get, one stateful operator; made by `stateful`.

    It has PySpark's DataFrame methods with PySpark's meaning. A method that is missing raises `Unsupported` with its name and an
    alternative; see `binshift.spark.unsupported`.
    """

    __slots__ = ("_frame", "_recorded")

    def __init__(self, frame: DataFrame, recorded: Recorded) -> None:
        self._frame = frame
        self._recorded = recorded

    def withWatermark(self, eventTime: str, delayThreshold: str) -> StatefulFrame:
        """Spark's `DataFrame.withWatermark` itself: Spark follows the event time at this point of the plan.

        Each of several united streams may have one; ``spark.sql.streaming.multipleWatermarkPolicy`` combines them for the query.

        Raises:
            AnalysisException: Spark's own, for the column or the interval.
            Unsupported: a second watermark on a stream, which Spark rejects once the query runs, or one after the stateful operator.
        """
        if self._recorded.operator is not None:
            raise unsupported("StatefulFrame", "withWatermark", "not yet after the stateful operator; call it before")
        if has_watermark(self._frame):
            raise unsupported(
                "StatefulFrame", "withWatermark", "there is one already; to unite streams, give each its own"
            )
        return StatefulFrame(self._frame.withWatermark(eventTime, delayThreshold), self._recorded)

    def groupBy(self, *cols: Any) -> StatefulGroupedData:
        """As `DataFrame.groupBy`; followed by one stateful operator. Without columns there is one group, on one worker.

        Raises:
            Unsupported: a second stateful operator.
        """
        if self._recorded.operator is not None:
            raise unsupported("StatefulFrame", "groupBy", "not yet after a stateful operator: a query has one of them")
        given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        columns = tuple(self._column(each) for each in given)
        return StatefulGroupedData(self._frame, columns, self._with_operator)

    groupby = groupBy

    def agg(self, *exprs: Column | dict[str, str]) -> StatefulFrame:
        """As `DataFrame.agg`: all rows are one group, on one worker. Every epoch emits its row, also one without input."""
        return self.groupBy().agg(*exprs)

    @property
    def writeStream(self) -> StatefulStreamWriter:
        """As `DataFrame.writeStream`.

        Raises:
            Unsupported: there is no stateful operator.
        """
        recorded = self._recorded
        if recorded.operator is None or recorded.source is None:
            raise unsupported("StatefulFrame", "writeStream", "it has no stateful operator; write the DataFrame itself")
        return StatefulStreamWriter(self._frame, recorded.source, recorded.operator, recorded.after, recorded.keywords)

    @property
    def schema(self) -> StructType:
        """As `DataFrame.schema`."""
        return self._frame.schema

    @property
    def columns(self) -> list[str]:
        """As `DataFrame.columns`."""
        return self._frame.columns

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """As `DataFrame.dtypes`."""
        return self._frame.dtypes

    @property
    def isStreaming(self) -> bool:
        """As `DataFrame.isStreaming`: always true."""
        return True

    @property
    def sparkSession(self) -> SparkSession:
        """As `DataFrame.sparkSession`."""
        return self._frame.sparkSession

    def printSchema(self, level: int | None = None) -> None:
        """As `DataFrame.printSchema`."""
        self._frame.printSchema(level)

    def colRegex(self, colName: str) -> Column:
        """As `DataFrame.colRegex`."""
        return self._frame.colRegex(colName)

    def coalesce(self, numPartitions: int) -> StatefulFrame:
        """As `DataFrame.coalesce`, before the stateful operator.

        Raises:
            Unsupported: after it.
        """
        if self._recorded.operator is not None:
            instead = "after the stateful operator it would put all workers' rows into fewer tasks; use repartition(n)"
            raise unsupported("StatefulFrame", "coalesce", instead)
        return self._apply("coalesce", numPartitions)

    def __getitem__(self, item: int | str | Column | list[Any] | tuple[Any, ...]) -> Any:
        """As in PySpark: a column by name or position (unresolved), a filter by a condition, a selection by a list."""
        if isinstance(item, Column):
            return self.filter(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        if isinstance(item, int):
            return F.col(quoted(self.columns[item]))
        self._frame[item]  # raises Spark's error for an unknown name
        return F.col(item)

    def __getattr__(self, name: str) -> Column:
        if name in FRAME:
            raise unsupported("StatefulFrame", name, FRAME[name])
        if name in self.__slots__ or name.startswith("__") or name not in self.columns:
            raise AttributeError(f"StatefulFrame has neither a method nor a column {name!r}")
        return F.col(quoted(name))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.columns})

    def __repr__(self) -> str:
        return f"StatefulFrame[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def _apply(self, name: str, *args: Any, **kwargs: Any) -> Self:
        recorded = self._recorded
        try:
            frame: DataFrame = getattr(self._frame, name)(*args, **kwargs)
        except AnalysisException as error:
            if error.getCondition() == "AMBIGUOUS_REFERENCE":
                error.add_note(
                    "Columns of a StatefulFrame are unresolved: join on a name, or give both sides an alias."
                )
            raise
        if recorded.operator is None:
            refuse_state(frame)
            return type(self)(frame, recorded)
        if len(state_nodes(frame)) > len(state_nodes(self._frame)):
            raise unsupported("StatefulFrame", name, "not yet: this would be a second stateful operator")
        return type(self)(frame, replace(recorded, after=(*recorded.after, Call(name, args, kwargs))))

    def _with_operator(self, stand_in: DataFrame, operator: Operator) -> StatefulFrame:
        return StatefulFrame(stand_in, replace(self._recorded, source=self._frame, operator=operator))

    def _column(self, given: object) -> Column:
        if isinstance(given, Column):
            return given
        if isinstance(given, str):
            return F.col(given)
        if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= len(self.columns):
            return F.col(quoted(self.columns[given - 1]))
        raise InvalidQuery(f"groupBy got {given!r}; it takes columns, names, or positions 1 .. {len(self.columns)}")

    def _static(self, name: str, other: object) -> DataFrame:
        if isinstance(other, StatefulFrame) or (isinstance(other, DataFrame) and other.isStreaming):
            instead = "not yet between two streams; union them with a column that distinguishes them"
            raise unsupported("StatefulFrame", name, instead)
        if not isinstance(other, DataFrame):
            raise InvalidQuery(f"{name} got a {type(other).__name__}; it takes a DataFrame")
        return other

    def _stream(self, name: str, other: object) -> DataFrame:
        if self._recorded.operator is not None:
            instead = "not yet after the stateful operator; union before it, or in a foreachBatch sink"
            raise unsupported("StatefulFrame", name, instead)
        if isinstance(other, StatefulFrame):
            self._same_query(name, other._recorded)
            return other._frame
        if not isinstance(other, DataFrame) or not other.isStreaming:
            raise InvalidQuery(f"{name} got {other!r}; it takes another stream")
        refuse_state(other)
        return other

    def _same_query(self, name: str, other: Recorded) -> None:
        if other.operator is not None:
            raise unsupported("StatefulFrame", name, "not yet with a frame that has a stateful operator")
        if other.keywords and other.keywords != self._recorded.keywords:
            raise InvalidSettings(
                f"{name}: the frames have differing settings, {dict(self._recorded.keywords)} and {dict(other.keywords)}"
            )
