"""State in Spark: the sources ``binshift-state`` and ``binshift-state-metadata``, for batch queries over a checkpoint.

Options and columns are those of Spark's ``statestore`` and ``state-metadata``; a partition is a bin. See `binshift.state`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import BinSet
from binshift.operators.stored import SINGLE_STORE, Form
from binshift.rows import of_type
from binshift.state.options import StateOptions
from binshift.state.properties import operator_properties
from binshift.state.reader import Changes, StateLog, StateRows

STATE_FORMAT = "binshift-state"
METADATA_FORMAT = "binshift-state-metadata"

METADATA = (
    "operatorId int, operatorName string, stateStoreName string, numPartitions int, minBatchId long, maxBatchId long, "
    "operatorProperties string"
)

ROWS_IN_PARTITION = 500_000
PARTITIONS_MAX = 128


def register_state_sources(spark: SparkSession) -> None:
    """Make ``spark.read.format("binshift-state")`` and ``"binshift-state-metadata"`` known to a session.

    `binshift.install` does it as well.

    Args:
        spark: a session; its Python must be able to import binshift.
    """
    for source in (StateSource, MetadataSource):
        spark.dataSource.register(source)


@dataclass(frozen=True)
class StatePart(InputPartition):
    """What one task reads: some bins, or some files of changes.

    Attributes:
        url: of the log.
        source: what is read.
        bins: which, of a state.
    """

    url: str
    source: StateRows | Changes
    bins: BinSet

    def batches(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        """The rows."""
        if isinstance(self.source, StateRows):
            yield from self.source.read(storage, self.bins)
        else:
            yield from self.source.read(storage)


class StateSource(DataSource):
    """``binshift-state``: the rows of an operator at an epoch, or their changes."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return STATE_FORMAT

    def schema(self) -> StructType:
        """Of the chosen rows.

        Raises:
            InvalidQuery: an option is wrong.
            ForeignLog: there is no checkpoint of binshift at the path.
        """
        options = StateOptions.of(self.options)
        return from_arrow_schema(options.source(StateLog.open(options.path)).schema)

    def reader(self, schema: StructType) -> StateReader:
        """Of the chosen rows, with a column set."""
        return StateReader(StateOptions.of(self.options), schema)


class StateReader(DataSourceReader):
    """Reads what the options state."""

    def __init__(self, options: StateOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Parts of the bins, or of the changes."""
        log = StateLog.open(self._options.path)
        source, url = self._options.source(log), log.storage.url
        if isinstance(source, Changes):
            return [StatePart(url, each, BinSet()) for each in source.parts(PARTITIONS_MAX)]
        count = min(PARTITIONS_MAX, 1 + source.rows_about // ROWS_IN_PARTITION)
        parts = source.parts(count)
        if self._options.bin is not None:
            only = BinSet(np.array([self._options.bin], dtype=np.int32))
            parts = [each & only for each in parts]
        return [StatePart(url, source, each) for each in parts if each] or [StatePart(url, source, BinSet())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part, in the types that Spark takes."""
        assert isinstance(partition, StatePart)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in partition.batches(open_storage(partition.url)):
            columns = [of_type(column, each.type) for column, each in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


class MetadataSource(DataSource):
    """``binshift-state-metadata``: the operators of a checkpoint, their rows, and the epochs that can be read."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return METADATA_FORMAT

    def schema(self) -> str:
        """As Spark's ``state-metadata``."""
        return METADATA

    def reader(self, schema: StructType) -> MetadataReader:
        """Of all operators."""
        return MetadataReader(StateOptions.of(self.options))


class MetadataReader(DataSourceReader):
    """One row for each operator and kind of its rows."""

    def __init__(self, options: StateOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """The rows; of an operator without a description, one."""
        log = StateLog.open(self._options.path)
        oldest, newest = log.epochs
        for operator in log.format.operators:
            number, _, name = operator.name.partition(".")
            properties = operator_properties(operator, log.schemas)
            for rows in log.kinds(operator):
                store = SINGLE_STORE if rows.form is Form.OPAQUE else rows.name
                yield int(number), name, store, log.format.bins, oldest, newest, properties
