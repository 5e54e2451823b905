"""The two checkpoints of version 0.1 that later versions must read: how they were written, and their contents.

`processor` was written by the engine: a processor with a value, a list, a map and timers, through a rescale, a move and the loss of a
worker. `aggregate` is the log of a count with described state, of one worker. The README in the folder has the command. Nothing
rewrites a checkpoint in the repository: a version with another format adds a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from appended_deltas import append_delta
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift import entries
from binshift.engine.epoch_plan import BatchOffsets
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.records.schemas import SchemasFile, add_schemas
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import Epoch, Worker
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import STATE_SPACE, prefixed
from binshift.operators.merge import Merge, MergeSpec
from binshift.operators.processor.evolution import Encoding
from binshift.routing import Route
from binshift.rows import RowCodec
from binshift.spark.testing.dataflow import EPOCH_MS
from binshift.spark.testing.engine import OPERATOR
from binshift.spark.testing.workers import Batch
from binshift.state.descriptions import to_formats
from binshift.state.variables import to_schemas
from binshift.testing import Dataflow

FOLDER = Path(__file__).parent / "data" / "checkpoint-0.1"
OPTIONS = {"durable": "false"}
KEYS, BUFFERS = pa.schema([("k0", pa.string())]), pa.schema([("p0", pa.int64())])
COUNT = Aggregate(KEYS, BUFFERS, (MergeSpec(Merge.COUNT, ("p0",)),), OutputMode.UPDATE)
COUNTED: tuple[dict[str, int | None], ...] = ({"a": 1, "b": 2}, {"a": 5}, {"b": None, "c": 7})
"""By epoch, the counts that it sets; None deletes. `a` is in bin 0, the others in bin 1."""

INPUT: tuple[tuple[tuple[str, int], ...], ...] = (
    (("a", 1), ("b", 2), ("ä", 3)),
    (("a", 4), ("c", 5)),
    (("d", 6), ("b", 0)),
    (("a", 7), ("e", 8)),
    (("c", 9),),
    (),
    (("b", 10), ("e", 11)),
    (("a", 12),),
    (("f", 13), ("d", 0)),
)
"""By epoch, the rows of the processor; 0 clears the key."""
VALUES = {("a",): (12,), ("b",): (10,), ("c",): (9,), ("e",): (11,), ("f",): (13,), ("ä",): (3,)}
LISTS = {
    ("a",): [(1,), (4,), (7,), (12,)],
    ("b",): [(10,)],
    ("c",): [(5,), (9,)],
    ("e",): [(8,), (11,)],
    ("f",): [(13,)],
    ("ä",): [(3,)],
}
MAPS = {key: {each: each for each in values} for key, values in LISTS.items()}
"""The state after the last epoch."""
TIMERS_LAST_MS = 3_600_000 + 9_000


class Keeping(StatefulProcessor):
    """Keeps the newest value, all values in a list and in a map, and a timer in an hour, which returns how many there are."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n long")
        self.list = handle.getListState("list", "n long")
        self.map = handle.getMapState("map", "u long", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.v:
                self.value.update((row.v,))
                self.list.appendValue((row.v,))
                self.map.updateValue((row.v,), (row.v,))
                self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000)
            else:
                for state in (self.value, self.list, self.map):
                    state.clear()
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(k=key[0], n=len(list(self.list.get())))


def keeping() -> Dataflow:
    """The processor with an empty log in memory."""
    return Dataflow(
        Keeping(), input="k string, v long", keys="k", output="k string, n int", time_mode="ProcessingTime", workers=2
    )


def _given(flow: Dataflow, epoch: int) -> Batch:
    offsets = BatchOffsets(EPOCH_MS * (epoch + 1), 0, str(epoch))
    return Batch(flow._processing.routed(INPUT[epoch], flow._bins), offsets)


def continued(storage: Storage) -> Dataflow:
    """The processor on a log with the epochs of `INPUT`, without local stores. The last epoch has run again, as after a crash."""
    flow = keeping()
    last = Epoch(len(INPUT) - 1)
    flow._storage = storage
    flow._workers.grow(3)
    flow._batches.batches = [_given(flow, epoch) for epoch in range(len(INPUT))]
    flow._output = {Epoch(epoch): [] for epoch in range(len(INPUT))}
    flow._running = flow._started()
    flow._run(last)
    return flow


def write_processor(storage: Storage) -> None:
    """Run the epochs of `INPUT` on an empty log."""
    flow = keeping()
    flow._storage = storage
    flow._running = flow._started()
    flow._running.coordinator.migrations.snapshots.cycle_epochs = 4
    schemas = to_schemas(OPERATOR, Encoding.UNSAFE_ROW, pa.schema([("k", pa.string())]), flow._histories)
    add_schemas(storage, SchemasFile(number=1, operators=(schemas,)))
    for epoch, rows in enumerate(INPUT):
        if epoch == 2:
            flow.rescale(3)
        if epoch == 6:
            flow.move(0, to=1 if flow.owners[0] != 1 else 2)
            flow.kill(0)
        flow.epoch(rows)
    assert len(flow._batches.batches) == len(INPUT)


def count_format() -> LogFormat:
    """What the log of the count holds."""
    (rows,) = COUNT.stored()
    state = to_formats([rows.named(["word"], ["count"])])
    return LogFormat(bins=2, query="q", operators=(OperatorFormat("0.stateStoreSave", "f", state=state),))


def append_counts(log: Log, epoch: int, counts: dict[str, int | None]) -> None:
    """One more epoch of the count."""
    keys = prefixed(STATE_SPACE, RowCodec(KEYS).pack_columns([pa.array(list(counts), pa.string())], len(counts)))
    packed = RowCodec(BUFFERS, canonical=False).pack_columns([pa.array(counts.values(), pa.int64())], len(counts))
    values = [None if count is None else each.as_py() for each, count in zip(packed, counts.values(), strict=True)]
    changed = entries.sort(entries.make([int(key != "a") for key in counts], keys, values))
    append_delta(log, "0.stateStoreSave", epoch, changed, Route.initial(2, [Worker(0)]))


def main() -> None:
    """Write both to an empty folder, which is the only argument."""
    folder = Path(sys.argv[1])
    write_processor(open_storage(str(folder / "processor" / "binshift"), OPTIONS))
    log = Log.on(open_storage(str(folder / "aggregate" / "binshift"), OPTIONS), count_format())
    for epoch, counts in enumerate(COUNTED):
        append_counts(log, epoch, counts)


if __name__ == "__main__":
    main()
