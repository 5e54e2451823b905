"""A query with a processor stops, its state's schemas change, and it continues: on both engines, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import TIMES, Engine, Sink, ours, put, run, source, sparks
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import binshift
from binshift.errors import IncompatibleState
from binshift.log.tools.inspect import verify
from binshift.operators.processor.evolution import ENCODING_CONF, THRESHOLD_CONF

pytestmark = pytest.mark.cluster

OUTPUT = "k long, seen string"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

INT, LONG = "n int, s string", "more string, n long"
DOUBLE = "n double, s string"


def processor(schema: str, value: Callable[[int], tuple[Any, ...]], more: str = "") -> StatefulProcessor:
    """Keeps a value, the last elements of a list, and a map by the number of rows. Pickled with its class, as it is local."""

    class Counting(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.value = handle.getValueState("value", schema)
            self.list = handle.getListState("list", schema)
            self.map = handle.getMapState("map", "u long", schema)
            if more:
                handle.getValueState(more, "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            before = self.value.get(), [*self.list.get()], sorted((u[0], tuple(v)) for u, v in self.map.iterator())
            count = sum(1 for _ in rows)
            self.value.update(value(count))
            self.list.appendValue(value(count))
            self.map.updateValue((count,), value(count))
            yield Row(k=key[0], seen=repr(before))

        def close(self) -> None:
            pass

    return Counting()


def applied(frame: DataFrame, of: StatefulProcessor, key: str = "k") -> DataFrame:
    """A program."""
    return frame.groupBy(key).transformWithState(of, OUTPUT, "Update", "None")


PROGRAMS = (
    processor(INT, lambda count: (count, "first")),
    processor(LONG, lambda count: ("m", count)),
    processor(DOUBLE, lambda count: (count / 4, "third"), "later"),
)


@pytest.fixture
def avro(session: SparkSession) -> Iterator[None]:
    """Spark's conf for schemas that change."""
    confs = {ENCODING_CONF: "avro", PROVIDER: ROCKSDB}
    before = {name: session.conf.get(name) for name in confs}
    for name, value in confs.items():
        session.conf.set(name, value)
    yield
    for name, text in before.items():
        session.conf.set(name, str(text))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For files, each a batch."""
    return tmp_path / "in"


def evolved(session: SparkSession, folder: Path, engine: Engine, checkpoint: Path) -> Sink:
    """One program after the other, each over one more file."""
    sink = Sink()
    for batch, each in enumerate(PROGRAMS):
        if not (folder / f"{batch}.parquet").exists():
            put(folder, batch, TIMES[batch])
        run(engine(applied(source(session, folder), each)), checkpoint, sink)
    return sink


@pytest.mark.usefixtures("avro")
def test_a_changed_processor_continues(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Each program reads what the ones before it have written, as on Spark; the state source reads rows of all of them."""
    found = evolved(session, folder, ours, tmp_path / "ours")
    assert found.epochs == evolved_on_spark(session, folder, tmp_path)
    assert any("first" in row[1] for row in found.epochs[2])
    assert verify(f"file://{tmp_path}/ours/binshift") == []
    binshift.register_state_sources(session)
    state = session.read.format("binshift-state").option("stateVarName", "list").load(str(tmp_path / "ours"))
    assert {field.name for field in state.schema["list_element"].dataType} == {"n", "s"}  # type: ignore[attr-defined]
    assert {row["list_element"]["s"] for row in state.collect()} == {"first", "third", None}


def evolved_on_spark(session: SparkSession, folder: Path, tmp_path: Path) -> dict[int, Any]:
    """The same files, one after the other."""
    files = sorted(folder.iterdir())
    again = tmp_path / "again"
    again.mkdir()
    sink = Sink()
    for each, file in zip(PROGRAMS, files, strict=True):
        (again / file.name).hardlink_to(file)
        run(sparks(applied(source(session, again), each)), tmp_path / "sparks", sink)
    return sink.epochs


@pytest.mark.usefixtures("avro")
def test_what_cannot_be_read_is_refused(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Nothing is written, and the earlier program continues."""
    put(folder, 0, TIMES[0])
    sink = Sink()

    def started(of: StatefulProcessor, key: str = "k") -> None:
        run(ours(applied(source(session, folder), of, key)), tmp_path / "ours", sink)

    started(PROGRAMS[1])
    before = sorted(path for path in (tmp_path / "ours").rglob("*"))
    with pytest.raises(IncompatibleState, match=r"^\[STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION\]"):
        started(PROGRAMS[0])
    with pytest.raises(IncompatibleState, match=r"^\[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE\]"):
        started(PROGRAMS[1], "ts")
    session.conf.set(THRESHOLD_CONF, "0")
    try:
        with pytest.raises(IncompatibleState, match=r"^\[STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED\]"):
            started(PROGRAMS[2])
    finally:
        session.conf.unset(THRESHOLD_CONF)
    assert sorted(path for path in (tmp_path / "ours").rglob("*")) == before
    put(folder, 1, TIMES[1])
    started(PROGRAMS[1])
    assert sorted(sink.epochs) == [0, 1]
