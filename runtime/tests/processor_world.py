"""Runs a `StatefulProcessor` epoch by epoch, in memory or on LMDB, on two workers, without Spark; for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol, cast
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

from binshift.entries import Entries, merge_last_wins
from binshift.model import Bin, BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, IndexTimes, StateReader
from binshift.operators.decoding import decode
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.processor.decoding import variable_rows
from binshift.operators.processor.evolution import Rules, evolve, variables_of
from binshift.operators.processor.operator import INITIAL_COLUMN, StatefulProcessing, TimeMode
from binshift.rows import RowCodec
from binshift.spark.stages.definitions import defined
from binshift.spark.tasks.frame_parts import FrameConf
from binshift.spark.tasks.processor_calls import PickledProcessor
from binshift.spark.tasks.processor_frames import FrameFormat
from binshift.spark.tasks.processor_rows import RowFormat
from binshift.spark.testing.processing import FRAMES, command_of, numbered
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.memory_store import MemoryStore

BINS = 8
NO_RULES = Rules()
CONF = FRAMES


def struct(**fields: Any) -> StructType:
    """A schema of these types."""
    return StructType([StructField(name, type) for name, type in fields.items()])


KEY = struct(k=StringType())
ROWS = struct(k=StringType(), v=LongType())


class World:
    """One processor over its epochs.

    Args:
        processor: is pickled at once.
        output: of the processor.
        time: the mode.
        rows: of the input, of which ``k`` is the key.
        initial: of the initial state, of which ``k`` is the key.
        frames: whether rows are given in frames.
        event_time: the column of the input by which rows are late, in milliseconds.
        conf: of frames.
        store: with the state.
        rules: of changes to the state's schemas.

    Attributes:
        late: rows that the last epoch dropped.
        wake_at_ms: the earliest moment that a worker of the last epoch has requested.
        times: what the workers' processes know of the indexes by time.
        opened: the bins that the last epoch has opened, each with the key from which it was read.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        output: StructType,
        time: TimeMode = TimeMode.NONE,
        *,
        rows: StructType = ROWS,
        initial: StructType | None = None,
        frames: bool = False,
        event_time: str | None = None,
        conf: FrameConf = CONF,
        store: KeyValueStore | None = None,
        rules: Rules = NO_RULES,
    ) -> None:
        command = command_of(processor, time)
        found = defined(command, time)
        self.rules = rules
        self.histories = evolve((), found.wanted, found.deleted, rules)
        names, initial_names = rows.names, [] if initial is None else initial.names
        format = FrameFormat(names, initial_names, output, conf) if frames else RowFormat(names, initial_names, output)
        self.operator = StatefulProcessing(
            PickledProcessor(command, time, KEY, format, found.parsed),
            pa.schema([("k0", pa.string())]),
            numbered("c", rows),
            to_arrow_schema(output, timezone="UTC"),
            variables_of(self.histories, found.wanted),
            time,
            late_rows=event_time is not None,
            initial=None if initial is None else numbered("i", initial),
        )
        self.store: KeyValueStore = store or MemoryStore()
        self.rows = rows
        self.event_time = event_time
        self.watermark = self.time = self.epochs = self.late = 0
        self.counts: Counter[str] = Counter()
        self.wake_at_ms: int | None = None
        self.times = (IndexTimes(), IndexTimes())
        self.opened: list[tuple[int, bytes]] = []

    def restart(self, worker: int) -> None:
        """A worker's process ends, and another one continues."""
        self.times = tuple(IndexTimes() if at == worker else each for at, each in enumerate(self.times))  # type: ignore[assignment]

    def epoch(
        self,
        rows: Sequence[tuple[Any, ...]] = (),
        *,
        time: int | None = None,
        watermark: int | None = None,
        initial: Sequence[tuple[Any, ...]] = (),
        split: int = BINS // 2,
    ) -> list[dict[str, Any]]:
        """One epoch at a time and a watermark in milliseconds (default: as before); bins below ``split`` are one worker's."""
        before, self.watermark = self.watermark, self.watermark if watermark is None else watermark
        self.time = self.time if time is None else time
        batch, output, states = self._sent(rows, initial), [], []
        self.late = 0
        workers = [BinSet(range(split)), BinSet(range(split, BINS))]
        with self.store.read() as reader:
            watched = self._watched(reader)
            for owned, times in zip(workers, self.times, strict=True):
                mine = batch.filter(pa.array(np.isin(batch.column(BIN_COLUMN).to_numpy(), owned.array)))
                context = EpochContext(Epoch(self.epochs), self.time, self.watermark, before, owned)
                state = EpochState(watched, times=times)
                for found in self.operator.run(iter([mine]), state, context):
                    assert found.schema.names == self.operator.output_schema.names
                    output += found.to_pylist()
                states.append(state)
                self.late += state.rows_late
        for owned, state in zip(workers, states, strict=True):
            changes = merge_last_wins(state.changes)
            with self.store.write(1) as transaction:
                transaction.put_many(changes)
            state.times.change(changes, owned)
        with self.store.read() as reader:
            wakes = [
                state.wake.at_ms(reader, owned) for owned, state in zip(workers, states, strict=True) if state.wake
            ]
        self.epochs += 1
        self.counts = sum((state.counts for state in states), Counter())
        self.wake_at_ms = min((each for each in wakes if each is not None), default=None)
        return output

    def _watched(self, reader: StateReader) -> StateReader:
        """The reader, which notes the bins that are opened."""
        self.opened, scan, scan_bins = [], reader.scan, reader.scan_bins

        def watched(bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
            self.opened.append((bin, start))
            return scan(bin, start, stop)

        def watched_bins(bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
            self.opened += [(bin, start) for bin in bins]
            return scan_bins(bins, start, stop)

        made: StateReader = Mock(wraps=reader)
        made.scan, made.scan_bins = watched, watched_bins  # type: ignore[method-assign]
        return made

    def stored(self) -> list[bytes]:
        """The keys of all rows in the store."""
        return [key for _, key in self.placed()]

    def placed(self) -> list[tuple[int, bytes]]:
        """The bins and keys of all rows in the store."""
        with self.store.read() as reader:
            parts = [(bin, part) for bin in range(BINS) for part in reader.scan(Bin(bin))]
        return [(bin, key) for bin, part in parts for key in part.column("key").to_pylist()]

    def with_processor(self, processor: StatefulProcessor) -> World:
        """The same state, continued by another instance, which may have other schemas."""
        other = World.__new__(World)
        other.__dict__.update(self.__dict__)
        command = command_of(processor, self.operator.time)
        found = defined(command, self.operator.time)
        other.histories = evolve(self.histories, found.wanted, found.deleted, self.rules)
        user = replace(cast(PickledProcessor, self.operator.user), command=command, parsed=found.parsed)
        other.operator = replace(self.operator, user=user, variables=variables_of(other.histories, found.wanted))
        return other

    def read(self, name: str) -> list[tuple[Any, ...]]:
        """The columns of a variable's rows, as the state source has them."""
        (history,) = (each for each in self.histories if each.name == name)
        rows = variable_rows(history, to_arrow_schema(KEY, timezone="UTC"))
        with self.store.read() as reader:
            parts = [part for bin in range(BINS) for part in reader.scan(Bin(bin))]
        found = [decode(rows, part, 0).columns for part in parts]
        return [row for columns in found for row in zip(*(column.to_pylist() for column in columns), strict=True)]

    def _sent(self, rows: Sequence[tuple[Any, ...]], initial: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """The rows as F delivers them."""
        sent = sorted(
            [(_packed(row[0]), False, at, row) for at, row in enumerate(rows)]
            + [(_packed(row[0]), True, at, row) for at, row in enumerate(initial)],
            key=lambda each: (each[0], each[1] is False, each[2]),
        )
        columns = [
            pa.array([each[0][0] for each in sent], pa.int32()),
            pa.array([each[3][0] for each in sent], pa.string()),
        ]
        names = [BIN_COLUMN, "k0"]
        if self.event_time is not None:
            at = self.rows.names.index(self.event_time)
            columns.append(pa.array([None if each[1] else each[3][at] for each in sent], pa.int64()))
            names.append(EXPIRY_COLUMN)
        if self.operator.initial is not None and self.epochs == 0:
            columns.append(pa.array([each[1] for each in sent], pa.bool_()))
            names.append(INITIAL_COLUMN)
            columns += [
                pa.array([each[3][at] if each[1] else None for each in sent], field.type)
                for at, field in enumerate(self.operator.initial)
            ]
            names += self.operator.initial.names
        columns += [
            pa.array([None if each[1] else each[3][at] for each in sent], field.type)
            for at, field in enumerate(self.operator.rows)
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*names, *self.operator.rows.names])


class KeyValueStores(Protocol):
    """Makes stores."""

    def __call__(self) -> AbstractContextManager[KeyValueStore]:
        """A new one."""


def _packed(key: str | None) -> tuple[int, bytes]:
    packed: bytes = RowCodec(pa.schema([("k", pa.string())])).pack_columns([pa.array([key], pa.string())], 1)[0].as_py()
    return sum(packed) % BINS, packed
