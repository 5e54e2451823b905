"""What Spark has kept for each operator, read by its own sources ``state-metadata`` and ``statestore``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from binshift.errors import Unsupported
from binshift.model import Epoch
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind
from binshift.state.options import PROCESSORS
from binshift.state.properties import KIND_NAMES

DEFAULT = "default"
"""Spark's store of operators that have one."""

KINDS = {name: kind for kind, name in KIND_NAMES.items()}
"""By Spark's names: what a variable holds."""

NO_TIME = TimeMode.NONE.in_plans

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
READ_ONCE = {f"{ROCKSDB}trackTotalNumberOfRows": "false", f"{ROCKSDB}writeBufferSizeMB": "128"}
"""Conf of Spark's state store for a state that is only read: rows are not counted, which would first read the old value of each, and files are not small."""


@dataclass(frozen=True)
class SparkVariable:
    """A variable of a processor.

    Attributes:
        kind: Spark's name of what it holds.
        expires: whether it has a time to live.
        rows: a list has one row for each key, the others one for each value or entry.
    """

    kind: str
    expires: bool
    rows: DataFrame


@dataclass(frozen=True)
class SparkState:
    """What Spark has kept for one operator.

    Attributes:
        operator: Spark's name of it.
        stores: by name.
        variables: of a processor, by name.
        time: the time mode of a processor.
        timers: of a processor, if it can have them.
    """

    operator: str
    stores: dict[str, DataFrame] = field(default_factory=dict)
    variables: Mapping[str, SparkVariable] = field(default_factory=dict)
    time: str = ""
    timers: DataFrame | None = None

    def store(self, name: str = DEFAULT) -> StoredFrame:
        """The rows of a store.

        Raises:
            Unsupported: the checkpoint has other stores.
        """
        if name not in self.stores:
            raise Unsupported(
                f"the checkpoint keeps {self.operator} in the stores {', '.join(sorted(self.stores))}, not in {name!r}: it is of "
                "another format, which is not adopted"
            )
        return StoredFrame(self.stores[name])


class StoredFrame:
    """The rows of a store.

    Attributes:
        keys: the columns of its key, as Spark names them.
        values: those of its value.
        rows: with the columns ``k0``, ... and ``v0``, ..., as names are repeated in Spark's state.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.keys, self.values = (StructType(list(frame.schema[name].dataType)) for name in ("key", "value"))  # type: ignore[call-overload]
        renamed = [numbered_struct(letter, schema) for letter, schema in (("k", self.keys), ("v", self.values))]
        named = [F.col(name).cast(type).alias(name) for name, type in zip(("key", "value"), renamed, strict=True)]
        self.rows = frame.select(*named).select(
            *(f"{name}.*" for name, type in zip(("key", "value"), renamed, strict=True) if type.names)
        )


def numbered_struct(letter: str, schema: StructType) -> StructType:
    """The schema with columns named by a letter and a number."""
    return StructType([StructField(f"{letter}{at}", each.dataType, True) for at, each in enumerate(schema)])


def read_states(spark: SparkSession, location: str, batch: Epoch) -> dict[int, SparkState]:
    """By Spark's number of an operator, its state after a batch.

    Args:
        spark: a session of the caller's own: its conf is changed.
        location: of the checkpoint.
        batch: the last one whose changes are in the state.
    """
    for key, value in READ_ONCE.items():
        spark.conf.set(key, value)
    found: dict[int, SparkState] = {}
    for row in spark.read.format("state-metadata").load(location).collect():

        def reader(number: int = row.operatorId) -> DataFrameReader:
            return spark.read.format("statestore").option("operatorId", number).option("batchId", batch)

        if row.operatorName.startswith(PROCESSORS):
            found[row.operatorId] = _processor(row.operatorName, json.loads(row.operatorProperties), reader, location)
        else:
            state = found.setdefault(row.operatorId, SparkState(row.operatorName))
            state.stores[row.stateStoreName] = reader().option("storeName", row.stateStoreName).load(location)
    return found


def _processor(
    name: str, properties: Mapping[str, Any], reader: Callable[[], DataFrameReader], location: str
) -> SparkState:
    variables = {
        each["stateName"]: SparkVariable(
            each["stateVariableType"],
            each["ttlEnabled"],
            reader()
            .option("stateVarName", each["stateName"])
            .option("flattenCollectionTypes", each["stateVariableType"] != KIND_NAMES[Kind.LIST])
            .load(location),
        )
        for each in properties["stateVariables"]
        if each["stateVariableType"] in KINDS
    }
    time = properties["timeMode"]
    timers = None if time == NO_TIME else reader().option("readRegisteredTimers", True).load(location)
    return SparkState(name, variables=variables, time=time, timers=timers)


def check_types(found: StructType, wanted: StructType, what: str = "columns") -> None:
    """Keys and rows are taken over column by column: names can differ, types cannot.

    Raises:
        Unsupported: they do.
    """
    theirs, ours = ([each.dataType.simpleString() for each in schema] for schema in (found, wanted))
    if theirs != ours:
        raise Unsupported(f"the checkpoint has {what} of the types {', '.join(theirs)}, the program {', '.join(ours)}")
