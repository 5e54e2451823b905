# ruff: noqa: N802, N803 (PySpark's own names, for methods and for their parameters)
"""The stateless methods of a frame, with PySpark's names and parameters, all implemented in one way.

Each method passes its name and arguments to `_apply`, and nothing else happens here: before the stateful operator, `_apply`
calls the method on the user's stream; after it, the call is recorded for every epoch's result. The methods mean what PySpark's
documentation of `pyspark.sql.DataFrame` states. An unsupported parameter raises an error that names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pyspark._globals import _NoValue
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery
from binshift.spark.unsupported import unsupported

if TYPE_CHECKING:
    from pyspark.sql._typing import ColumnOrName
    from pyspark.sql.pandas._typing import ArrowMapIterFunction, PandasMapIterFunction

JOIN_HINTS = frozenset(
    {
        "broadcast",
        "broadcastjoin",
        "mapjoin",
        "merge",
        "mergejoin",
        "shuffle_hash",
        "shuffle_merge",
        "shuffle_replicate_nl",
    }
)
"""Hints about joins; those about partitions would move a worker's rows away from its task."""


class StatelessMethods(ABC):
    """PySpark's stateless DataFrame methods."""

    __slots__ = ()

    @abstractmethod
    def _apply(self, name: str, *args: Any, **kwargs: Any) -> Self:
        """The frame after the DataFrame method ``name``."""

    @abstractmethod
    def _static(self, name: str, other: object) -> DataFrame:
        """``other`` as the static side of a join; rejects a stream."""

    @abstractmethod
    def _stream(self, name: str, other: object) -> DataFrame:
        """``other`` as a further stream of the source; rejected after the operator."""

    def select(self, *cols: Any) -> Self:
        """As `DataFrame.select`."""
        return self._apply("select", *cols)

    def selectExpr(self, *expr: str | list[str]) -> Self:
        """As `DataFrame.selectExpr`."""
        return self._apply("selectExpr", *expr)

    def filter(self, condition: Column | str) -> Self:
        """As `DataFrame.filter`."""
        return self._apply("filter", condition)

    def where(self, condition: Column | str) -> Self:
        """As `DataFrame.where`, the same as `filter`."""
        return self._apply("filter", condition)

    def withColumn(self, colName: str, col: Column) -> Self:
        """As `DataFrame.withColumn`."""
        return self._apply("withColumn", colName, col)

    def withColumns(self, *colsMap: dict[str, Column]) -> Self:
        """As `DataFrame.withColumns`."""
        return self._apply("withColumns", *colsMap)

    def withColumnRenamed(self, existing: str, new: str) -> Self:
        """As `DataFrame.withColumnRenamed`."""
        return self._apply("withColumnRenamed", existing, new)

    def withColumnsRenamed(self, colsMap: dict[str, str]) -> Self:
        """As `DataFrame.withColumnsRenamed`."""
        return self._apply("withColumnsRenamed", colsMap)

    def withMetadata(self, columnName: str, metadata: dict[str, Any]) -> Self:
        """As `DataFrame.withMetadata`."""
        return self._apply("withMetadata", columnName, metadata)

    def drop(self, *cols: ColumnOrName) -> Self:
        """As `DataFrame.drop`."""
        return self._apply("drop", *cols)

    def toDF(self, *cols: str) -> Self:
        """As `DataFrame.toDF`."""
        return self._apply("toDF", *cols)

    def to(self, schema: StructType) -> Self:
        """As `DataFrame.to`."""
        return self._apply("to", schema)

    def alias(self, alias: str) -> Self:
        """As `DataFrame.alias`."""
        return self._apply("alias", alias)

    def hint(self, name: str, *parameters: Any) -> Self:
        """As `DataFrame.hint`, for hints about joins.

        Raises:
            Unsupported: a hint about partitions.
        """
        if name.lower() not in JOIN_HINTS:
            raise unsupported("StatefulFrame", f"hint({name!r})", f"hints are {', '.join(sorted(JOIN_HINTS))}")
        return self._apply("hint", name, *parameters)

    def join(
        self, other: DataFrame, on: str | list[str] | Column | list[Column] | None = None, how: str | None = None
    ) -> Self:
        """As `DataFrame.join`, with a static DataFrame.

        Columns of this frame are unresolved: if both sides have a name, join on the name, or give both an alias.

        Raises:
            Unsupported: ``other`` is a stream.
        """
        return self._apply("join", self._static("join", other), on, how)

    def crossJoin(self, other: DataFrame) -> Self:
        """As `DataFrame.crossJoin`, with a static DataFrame.

        Raises:
            Unsupported: ``other`` is a stream.
        """
        return self._apply("crossJoin", self._static("crossJoin", other))

    def union(self, other: DataFrame | StatelessMethods) -> Self:
        """As `DataFrame.union`, with another stream, before the stateful operator.

        Raises:
            Unsupported: after the stateful operator.
        """
        return self._apply("union", self._stream("union", other))

    def unionAll(self, other: DataFrame | StatelessMethods) -> Self:
        """As `DataFrame.unionAll`; see `union`."""
        return self._apply("unionAll", self._stream("unionAll", other))

    def unionByName(self, other: DataFrame | StatelessMethods, allowMissingColumns: bool = False) -> Self:
        """As `DataFrame.unionByName`; see `union`."""
        return self._apply("unionByName", self._stream("unionByName", other), allowMissingColumns)

    def dropna(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> Self:
        """As `DataFrame.dropna`."""
        return self._apply("dropna", how, thresh, subset)

    def fillna(self, value: Any, subset: str | tuple[str, ...] | list[str] | None = None) -> Self:
        """As `DataFrame.fillna`."""
        return self._apply("fillna", value, subset)

    def replace(self, to_replace: Any, value: Any = _NoValue, subset: list[str] | None = None) -> Self:
        """As `DataFrame.replace`."""
        return self._apply("replace", to_replace, value, subset)

    @property
    def na(self) -> NaFunctions[Self]:
        """As `DataFrame.na`: the methods ``fill``, ``drop`` and ``replace``."""
        return NaFunctions(self)

    def unpivot(self, ids: Any, values: Any, variableColumnName: str, valueColumnName: str) -> Self:
        """As `DataFrame.unpivot`."""
        return self._apply("unpivot", ids, values, variableColumnName, valueColumnName)

    def melt(self, ids: Any, values: Any, variableColumnName: str, valueColumnName: str) -> Self:
        """As `DataFrame.melt`, the same as `unpivot`."""
        return self._apply("melt", ids, values, variableColumnName, valueColumnName)

    def repartition(self, numPartitions: int | ColumnOrName, *cols: ColumnOrName) -> Self:
        """As `DataFrame.repartition`."""
        return self._apply("repartition", numPartitions, *cols)

    def mapInArrow(
        self, func: ArrowMapIterFunction, schema: StructType | str, barrier: bool = False, profile: None = None
    ) -> Self:
        """As `DataFrame.mapInArrow`.

        Raises:
            Unsupported: a barrier or a profile, which would move the task away from its worker.
        """
        _refuse_placement("mapInArrow", barrier, profile)
        return self._apply("mapInArrow", func, schema)

    def mapInPandas(
        self, func: PandasMapIterFunction, schema: StructType | str, barrier: bool = False, profile: None = None
    ) -> Self:
        """As `DataFrame.mapInPandas`; see `mapInArrow`."""
        _refuse_placement("mapInPandas", barrier, profile)
        return self._apply("mapInPandas", func, schema)

    def transform(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """As `DataFrame.transform`: ``func`` gets this frame, and must return one.

        Raises:
            InvalidQuery: ``func`` returned something else.
        """
        result = func(self, *args, **kwargs)
        if not isinstance(result, type(self)):
            raise InvalidQuery(
                f"transform: the function returned a {type(result).__name__}, not a {type(self).__name__}"
            )
        return result


FrameT = TypeVar("FrameT", bound=StatelessMethods)


class NaFunctions(Generic[FrameT]):
    """As `DataFrameNaFunctions`."""

    def __init__(self, frame: FrameT) -> None:
        self._frame = frame

    def drop(
        self, how: str = "any", thresh: int | None = None, subset: str | tuple[str, ...] | list[str] | None = None
    ) -> FrameT:
        """As `dropna` of the frame."""
        return self._frame.dropna(how, thresh, subset)

    def fill(self, value: Any, subset: list[str] | None = None) -> FrameT:
        """As `fillna` of the frame."""
        return self._frame.fillna(value, subset)

    def replace(self, to_replace: Any, value: Any = _NoValue, subset: list[str] | None = None) -> FrameT:
        """As `replace` of the frame."""
        return self._frame.replace(to_replace, value, subset)


def _refuse_placement(name: str, barrier: bool, profile: object) -> None:
    if barrier or profile is not None:
        what = "barrier" if barrier else "profile"
        raise unsupported("StatefulFrame", f"{name}({what}=...)", "binshift itself places the tasks; leave it out")
