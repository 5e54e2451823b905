"""Reads the state of an operator at an epoch, and its changes, from a log.

`StateLog` plans: which files, which bins, which columns. `StateRows` and `Changes` are values that can be pickled and read
elsewhere, a part of the bins at a time; memory is bounded by `ROWS_AT_ONCE` rows, or one bin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import ForeignLog, InvalidQuery
from binshift.log.files.reading import read_all
from binshift.log.index import loading
from binshift.log.index.bringup import BringUp
from binshift.log.index.index import Index
from binshift.log.records import formats
from binshift.log.records.commits import FileRef
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.records.schemas import NO_SCHEMAS, SchemasFile, newest_schemas
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import BinSet, Epoch
from binshift.operators.decoding import decode
from binshift.operators.stored import Decoded, Form, StoredRows
from binshift.state.descriptions import CHANGE, schema_of, stored_rows
from binshift.state.variables import variable_rows
from binshift.worker.rebuild import BinRebuild, Limits

ROWS_AT_ONCE = 200_000
"""Stored rows that are read and decoded together."""

LOG_FOLDER = "binshift"
"""The log's folder in a checkpoint."""


@dataclass(frozen=True)
class StateRows:
    """The rows of one kind at one epoch; can be pickled.

    Attributes:
        rows: which kind.
        files: what leads to the epoch.
        watermark_ms: of the epoch.
    """

    rows: StoredRows
    files: BringUp
    watermark_ms: int

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row, such as ``key`` and ``value``, and ``partition_id``, which is the bin."""
        return schema_of(self.rows)

    def read(self, storage: Storage, bins: BinSet) -> Iterator[pa.RecordBatch]:
        """The rows of some bins.

        Raises:
            LogDamaged: a file is missing or damaged.
        """
        self.files.check_not_lost(bins)
        build = BinRebuild(storage, self.files, bins)
        for group in build.groups(Limits(rows_at_once=ROWS_AT_ONCE)):
            found = decode(self.rows, build.rows(group), self.watermark_ms)
            if len(found.bins):
                yield _batch(found, self.schema)

    def parts(self, count: int) -> list[BinSet]:
        """The bins with rows as at most so many parts."""
        touched = [np.empty(0, dtype=np.int32), *(part.bins.array for part in self.files.parts)]
        return [BinSet(part) for part in np.array_split(np.unique(np.concatenate(touched)), count) if part.size]

    @property
    def rows_about(self) -> int:
        """About how many entries are read, those of other kinds included."""
        return sum(part.file.rows * len(part.bins) // max(1, len(part.file.bins)) for part in self.files.parts)


@dataclass(frozen=True)
class Changes:
    """The changes of rows of one kind in some epochs, one file for each worker and epoch; can be pickled.

    Attributes:
        rows: which kind.
        files: the epoch, its watermark (milliseconds since 1970) and a delta.
    """

    rows: StoredRows
    files: tuple[tuple[Epoch, int, FileRef], ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns ``batch_id``, ``change_type`` ("update" or "delete"), and those of the state."""
        return pa.schema([*CHANGE, *schema_of(self.rows)])

    def read(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        """The changes, by epoch. Errors as `StateRows.read`."""
        for epoch, watermark_ms, file in self.files:
            for entries in read_all(storage, file):
                found = decode(self.rows, entries, watermark_ms)
                kinds = pc.if_else(pa.array(found.exists), "update", "delete")
                numbers = pa.repeat(pa.scalar(epoch, pa.int64()), len(kinds))
                yield pa.RecordBatch.from_arrays([numbers, kinds, *found.columns, found.bins], schema=self.schema)

    def parts(self, count: int) -> list[Changes]:
        """The same changes in at most so many parts."""
        cuts = np.array_split(np.arange(len(self.files)), max(1, min(count, len(self.files))))
        return [replace(self, files=tuple(self.files[at] for at in cut)) for cut in cuts]


def _batch(found: Decoded, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*found.columns, found.bins], schema=schema)


@dataclass(frozen=True)
class StateLog:
    """A log whose state is read.

    Attributes:
        storage: its files.
        format: what it holds state of.
        index: its records.
        schemas: of state variables.
    """

    storage: Storage
    format: LogFormat
    index: Index
    schemas: SchemasFile = NO_SCHEMAS

    @classmethod
    def open(cls, url: str, options: Mapping[str, str] | None = None) -> StateLog:
        """Read the log of a checkpoint.

        Args:
            url: the checkpoint's location, or that of the log in it.
            options: of the storage.

        Raises:
            ForeignLog: there is no log.
            LogDamaged: it is too damaged to be read.
        """
        for location in (f"{url.rstrip('/')}/{LOG_FOLDER}", url):
            storage = open_storage(location, options)
            try:
                format = formats.read_format(storage)
            except ForeignLog:
                continue
            if format is not None:
                return cls(storage, format, loading.load(storage, format).index, newest_schemas(storage))
        raise ForeignLog(f"{url} has no state of binshift; give the checkpointLocation of a query that binshift runs")

    @property
    def epochs(self) -> tuple[Epoch, Epoch]:
        """The oldest and the newest epoch whose state can be read.

        Raises:
            InvalidQuery: there is none yet.
        """
        oldest = Epoch(self.index.base + 1)
        if self.index.last < oldest:
            raise InvalidQuery(f"the query of {self.storage.url} has not recorded an epoch yet")
        return oldest, self.index.last

    def operator(self, number: int) -> OperatorFormat:
        """The operator of a number, which begins its name.

        Raises:
            InvalidQuery: there is none.
        """
        for each in self.format.operators:
            if each.name.partition(".")[0] == str(number):
                return each
        names = ", ".join(self.format.operator_names)
        raise InvalidQuery(f"there is no operator {number} at {self.storage.url}: it has {names}")

    def kinds(self, operator: OperatorFormat) -> tuple[StoredRows, ...]:
        """All kinds of rows of an operator. Errors as `stored_rows`."""
        variables, others = variable_rows(self.schemas, operator.name), stored_rows(operator)
        return (*variables, *(each for each in others if not variables or each.form is not Form.OPAQUE))

    def rows_of(self, operator: OperatorFormat, name: str | None = None) -> StoredRows:
        """The rows of a name, by default of the only name.

        Raises:
            InvalidQuery: there are none, or rows of several names.
        """
        known = self.kinds(operator)
        chosen = [each for each in known if name is None or each.name == name]
        if len(chosen) == 1:
            return chosen[0]
        wanted = "several kinds of rows" if name is None else f"no rows named {name!r}"
        raise InvalidQuery(f"operator {operator.name} has {wanted}: choose one of {', '.join(e.name for e in known)}")

    def at(
        self, operator: OperatorFormat, rows: StoredRows, epoch: Epoch | None = None, since: Epoch | None = None
    ) -> StateRows:
        """The rows at an epoch, by default the newest, built from snapshots no newer than ``since``.

        Raises:
            InvalidQuery: the log does not have that epoch (any more).
        """
        to = self._known(self.epochs[1] if epoch is None else epoch)
        index = self.index
        if since is not None:
            snapshots = {name: tuple(s for s in held if s.epoch <= since) for name, held in index.snapshots.items()}
            index = replace(index, snapshots=snapshots)
        bins = BinSet(np.arange(self.format.bins, dtype=np.int32))
        files = index.sources_or_lost(operator.name, bins, {}, to)
        return StateRows(rows, files, index.record(to).watermark_ms)

    def changes(self, operator: OperatorFormat, rows: StoredRows, first: Epoch, last: Epoch | None = None) -> Changes:
        """The changes of the epochs from ``first`` to ``last``, by default the newest.

        Raises:
            InvalidQuery: the log does not have one of these epochs (any more), or the rows have no changes of their own.
        """
        if rows.form is Form.SIDE:
            raise InvalidQuery("the sides of a join have no change feed, as in Spark: their rows are stored together")
        if rows.form is Form.LIST or rows.collected:
            raise InvalidQuery(f"{rows.name} has no change feed: its elements are shown together. Compare two epochs")
        stop = self.epochs[1] if last is None else last
        if stop < first:
            raise InvalidQuery(f"the changes begin with epoch {first}, after their end, {stop}")
        self._known(first)
        self._known(stop)
        records = (self.index.record(Epoch(each)) for each in range(first, stop + 1))
        return Changes(
            rows,
            tuple(
                (Epoch(record.epoch), record.watermark_ms, part.delta)
                for record in records
                for part in record.parts
                if part.operator == operator.name and part.delta is not None
            ),
        )

    def _known(self, epoch: Epoch) -> Epoch:
        oldest, newest = self.epochs
        if not oldest <= epoch <= newest:
            raise InvalidQuery(
                f"the log at {self.storage.url} has the epochs {oldest} to {newest}, not {epoch}: older ones are deleted once "
                "snapshots replace them"
            )
        return epoch
