"""The variables of processors on the log: their histories come back, and their rows are read by tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift.errors import Fenced, LogDamaged
from binshift.log.records.schemas import NO_SCHEMAS, SchemasFile, add_schemas, newest_schemas
from binshift.log.storage import layout
from binshift.log.storage.opening import open_storage
from binshift.log.tools.verification import verify
from binshift.model import Epoch
from binshift.operators.processor.evolution import Encoding, History
from binshift.operators.processor.variables import Kind
from binshift.spark.testing.engine import OPERATOR
from binshift.state.command import main
from binshift.state.reader import StateLog
from binshift.state.variables import histories_of, to_schemas
from binshift.testing import Dataflow

KEYS, N = pa.schema([("k", pa.string())]), pa.schema([("n", pa.int64())])
AT = pa.schema([("at", pa.timestamp("us", "UTC"))])
HISTORIES = (
    History(0, "list", Kind.LIST, (N,)),
    History(1, "map", Kind.MAP, (N,), user_key=AT),
    History(2, "value", Kind.VALUE, (pa.schema([("old", pa.int32())]), N), expires=True),
    History(3, "gone", Kind.VALUE, (N,), deleted=True),
)


def test_histories_come_back(tmp_path: Any) -> None:
    """All of a variable is on the log, and a later file has more."""
    storage = open_storage(str(tmp_path))
    assert newest_schemas(storage) == NO_SCHEMAS
    for number in (1, 2):
        operator = to_schemas(OPERATOR, Encoding.AVRO, KEYS, HISTORIES[: 2 * number])
        add_schemas(storage, SchemasFile(number=number, operators=(operator,)))
    (found,) = newest_schemas(storage).operators
    assert histories_of(found) == HISTORIES
    assert found.encoding == "avro"


def test_a_number_is_written_once(tmp_path: Any) -> None:
    """The same file again is fine; another one is that of another driver. A gap is damage."""
    storage = open_storage(str(tmp_path))
    for _ in range(2):
        add_schemas(storage, SchemasFile(number=1))
    with pytest.raises(Fenced, match="another driver has just written schemas/"):
        add_schemas(storage, SchemasFile(number=1, operators=(to_schemas("op", Encoding.AVRO, KEYS, ()),)))
    add_schemas(storage, SchemasFile(number=2))
    storage.delete([layout.schemas_name(1)])
    with pytest.raises(LogDamaged, match=r"schemas/0*1\.json is missing"):
        newest_schemas(storage)


class Keeping(StatefulProcessor):
    """Keeps the newest value, all values, and each value by itself; a value of 0 clears."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState("value", "n long")
        self.list = handle.getListState("list", "n long")
        self.map = handle.getMapState("map", "u long", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.v:
                self.value.update((row.v,))
                self.list.appendValue((row.v,))
                self.map.updateValue((row.v,), (row.v,))
            else:
                for state in (self.value, self.list, self.map):
                    state.clear()
        return iter(())


@pytest.fixture
def log() -> StateLog:
    """Of three epochs, the last of which clears `b`."""
    flow = Dataflow(Keeping(), input="k string, v long", keys="k", output="k string")
    flow.epoch([("a", 1), ("b", 2)])
    flow.epoch([("a", 3)])
    flow.epoch([("b", 0)])
    operator = to_schemas(OPERATOR, Encoding.UNSAFE_ROW, KEYS, flow._histories)
    add_schemas(flow._storage, SchemasFile(number=1, operators=(operator,)))
    return StateLog.open(flow._storage.url)


def read(log: StateLog, name: str, epoch: int) -> list[tuple[Any, ...]]:
    """The columns of rows at an epoch, without the bin."""
    operator = log.operator(0)
    found = log.at(operator, log.rows_of(operator, name), Epoch(epoch))
    rows = [row for bins in found.parts(2) for batch in found.read(log.storage, bins) for row in batch.to_pylist()]
    return sorted((tuple(row.values())[:-1] for row in rows), key=str)


def test_variables_are_read(log: StateLog) -> None:
    """One row for a value, an element, or an entry, with Spark's columns."""
    a, b = {"k": "a"}, {"k": "b"}
    assert read(log, "value", 0) == [(a, {"n": 1}), (b, {"n": 2})]
    assert read(log, "value", 2) == [(a, {"n": 3})]
    assert read(log, "list", 1) == [(a, {"n": 1}), (a, {"n": 3}), (b, {"n": 2})]
    assert read(log, "map", 2) == [(a, {"u": each}, {"n": each}) for each in (1, 3)]


def test_changes_are_read(log: StateLog) -> None:
    """A deleted row has its keys."""
    operator = log.operator(0)
    for name, deleted in (("value", [{"k": "b"}, None]), ("map", [{"k": "b"}, {"u": 2}, None])):
        changes = log.changes(operator, log.rows_of(operator, name), Epoch(2))
        rows = [list(row.values()) for batch in changes.read(log.storage) for row in batch.to_pylist()]
        assert [(row[1], row[2:-1]) for row in rows] == [("delete", deleted)]


def test_the_command_shows_variables(log: StateLog, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, as text and as JSON."""
    assert main([log.storage.url, "--name", "map", "--output", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["user_map_key"]["u"] for line in lines} == {1, 3}
    assert main([log.storage.url]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("list", "map", "value"))


def test_verification_reads_the_schemas(log: StateLog) -> None:
    """A damaged file is found."""
    assert verify(log.storage) == []
    name = layout.schemas_name(1)
    log.storage.put(name, log.storage.get(name).replace(b"unsaferow", b"avro_____"))
    assert [finding.name for finding in verify(log.storage)] == [name]
