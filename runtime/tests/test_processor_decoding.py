"""A processor's variables and timers as readers see them, against a dictionary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from appended_deltas import append_delta
from hypothesis import given, settings
from processor_fold import ASKED, OUTPUT, Asked, Fold, Obedient, State
from processor_world import BINS, World
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from test_processor_states import History, epochs

from binshift import entries
from binshift.errors import InvalidQuery
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.records.schemas import SchemasFile, add_schemas
from binshift.log.storage.opening import open_storage
from binshift.model import Bin, Worker
from binshift.operators.contract import STATE_SPACE
from binshift.operators.decoding import decode
from binshift.operators.processor import evolution
from binshift.operators.processor.decoding import timer_rows, variable_rows
from binshift.operators.processor.layout import sized, variable_keys
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind
from binshift.operators.stored import TTL, StoredRows
from binshift.routing import Route
from binshift.rows import RowCodec
from binshift.state.command import main
from binshift.state.descriptions import to_formats
from binshift.state.options import StateOptions
from binshift.state.reader import StateLog
from binshift.state.variables import to_schemas

KEYS = pa.schema([("word", pa.string())])
TTL_MS = 20


def arrow(schema: StructType) -> pa.Schema:
    """The user's schema in Arrow."""
    return to_arrow_schema(schema, timezone="UTC")


def described(world: World) -> dict[str, StoredRows]:
    """The rows of `Obedient`, as the log has them."""
    variables = [variable_rows(each, KEYS) for each in world.histories]
    return {rows.name: rows for rows in (*variables, timer_rows(KEYS))}


def seen(world: World, rows: StoredRows) -> list[dict[str, Any]]:
    """The decoded rows of one kind in the store."""
    with world.store.read() as reader:
        found = entries.concat([part for bin in range(BINS) for part in reader.scan(Bin(bin))])
    decoded = decode(rows, found, 0)
    assert decoded.exists.all()
    batch = pa.RecordBatch.from_arrays(list(decoded.columns), schema=rows.columns)
    batch.validate(full=True)
    return [{**row, "key": row["key"]["word"]} for row in batch.to_pylist()]


def by_text(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in any order."""
    return sorted(map(repr, rows))


def shown(ending: Any, ttl_ms: int | None) -> dict[str, Any]:
    """A tuple as a reader sees it."""
    value, ends = dict(zip("ns", ending[0], strict=True)), ending[1]
    return value if ttl_ms is None else {"value": value, TTL: ends}


@pytest.mark.parametrize("ttl_ms", [None, TTL_MS])
@settings(max_examples=40)
@given(history=epochs)
def test_what_readers_see_is_the_state(ttl_ms: int | None, history: History) -> None:
    """Every value, element, entry and timer that has not ended is one row; collected, each key is one row."""
    world, fold, now = World(Obedient(ttl_ms), OUTPUT, TimeMode.PROCESSING, rows=ASKED), Fold(ttl_ms), 0
    for rows, step, split, _ in history:
        now += step
        asked: list[Asked] = rows
        world.epoch(asked, time=now, split=split)
        fold.epoch(asked, now)
    world.epoch(time=now)
    fold.epoch([], now)
    kinds, live = described(world), {key: alive(state, now, ttl_ms) for key, state in fold.states.items()}
    values = [{"key": key, "value": each.value} for key, each in live.items() if each.value]
    assert by_text(seen(world, kinds["value"])) == by_text(values)
    elements = seen(world, kinds["list"])
    for key, each in live.items():
        assert [row["list_element"] for row in elements if row["key"] == key] == each.list
    pairs = [
        {"key": key, "user_map_key": {"u": u}, "user_map_value": found}
        for key, each in live.items()
        for u, found in each.map.items()
    ]
    assert by_text(seen(world, kinds["map"])) == by_text(pairs)
    timers = [{"key": key, "expiration_timestamp_ms": at} for key, state in fold.states.items() for at in state.timers]
    assert by_text(seen(world, kinds["timers"])) == by_text(timers)
    whole = [{"key": key, "list_value": each.list} for key, each in live.items() if each.list]
    assert by_text(seen(world, replace(kinds["list"], collected=True))) == by_text(whole)
    maps = {row["key"]: row["map_value"] for row in seen(world, replace(kinds["map"], collected=True))}
    assert {key: {repr(pair) for pair in found} for key, found in maps.items()} == {
        key: {repr(({"u": u}, found)) for u, found in each.map.items()} for key, each in live.items() if each.map
    }


def test_values_have_the_user_s_types() -> None:
    """Times are times, though they are stored as numbers."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("seen", pa.list_(pa.date32()))])
    history = evolution.History(3, "v", Kind.VALUE, (schema,))
    variable, rows = history.variable(None), variable_rows(history, KEYS)
    key = variable_keys(STATE_SPACE, 3, sized(RowCodec(KEYS).pack_columns([pa.array(["a"])], 1)))
    value = variable.codec.pack([(1_000_000, [1])])
    decoded = decode(rows, entries.make([5], key, value), 0)
    assert decoded.columns[1].to_pylist() == [
        {"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "seen": [date(1970, 1, 2)]}
    ]


def test_a_missing_variable_is_spark_s_error() -> None:
    """Variables and timers that do not exist are refused with Spark's conditions, which name the known ones."""
    world = World(Obedient(None), OUTPUT, TimeMode.PROCESSING, rows=ASKED)
    kinds = list(described(world).values())
    names = "transformWithStateInPySparkExec", "transformWithStateInPandasExec", "stateStoreSave"
    log = cast(StateLog, LogOf(names, (kinds, kinds[:-1], [])))

    def refusal(**options: str) -> str:
        with pytest.raises(InvalidQuery) as refused:
            StateOptions.of({"path": "/a", **options}).located(log)
        return str(refused.value)

    assert StateOptions.of({"path": "/a", "stateVarName": "list"}).located(log)[1] == kinds[0]
    assert StateOptions.of({"path": "/a", "readRegisteredTimers": "true"}).located(log)[1] == kinds[-1]
    assert refusal().startswith("[STDS_REQUIRED_OPTION_UNSPECIFIED] 'stateVarName' must be specified.")
    assert "State variable x is not defined for the transformWithState operator." in refusal(stateVarName="x")
    assert "list, map, value" in refusal(stateVarName="timers")
    assert "Found operator=stateStoreSave" in refusal(stateVarName="x", operatorId="2")
    assert "not available in timeMode=None" in refusal(readRegisteredTimers="true", operatorId="1")
    assert refusal(stateVarName="x", readRegisteredTimers="true").startswith("[STDS_CONFLICT_OPTIONS]")


@dataclass
class LogOf:
    """A log with operators."""

    names: Sequence[str]
    rows: Sequence[Sequence[StoredRows]]

    def operator(self, number: int) -> OperatorFormat:
        """See `StateLog`."""
        return OperatorFormat(f"{number}.{self.names[number]}", "f")

    def kinds(self, operator: OperatorFormat) -> tuple[StoredRows, ...]:
        """See `StateLog`."""
        return tuple(self.rows[int(operator.name[0])])


@dataclass
class Alive:
    """What has not ended of a key's state, as readers see it."""

    value: dict[str, Any] | None
    list: list[dict[str, Any]]
    map: dict[str, dict[str, Any]]


def alive(state: State, now: int, ttl_ms: int | None) -> Alive:
    """The state at a time."""
    return Alive(
        None if state.value is None or state.value[1] <= now else shown(state.value, ttl_ms),
        [shown(each, ttl_ms) for each in state.list if each[1] > now],
        {u: shown(each, ttl_ms) for u, each in state.map.items() if each[1] > now},
    )


def written(folder: Path) -> Path:
    """A checkpoint of two epochs: the first sets a variable of each kind and a timer, the second removes an entry and the value."""
    world = World(Obedient(None), OUTPUT, TimeMode.PROCESSING, rows=ASKED)
    operator = OperatorFormat("0.transformWithStateInPySparkExec", "f", state=to_formats([timer_rows(KEYS)]))
    storage = open_storage(str(folder / "binshift"), {"durable": "false"})
    log = Log.on(storage, LogFormat(bins=BINS, query="q", operators=(operator,)))
    schemas = to_schemas(operator.name, evolution.Encoding.UNSAFE_ROW, KEYS, world.histories)
    add_schemas(storage, SchemasFile(number=1, operators=(schemas,)))
    route = Route.initial(BINS, [Worker(0)])
    steps = (["value.set", "list.put", "map.set", "timer.register"], ["map.remove", "value.clear"])
    for epoch, ops in enumerate(steps):
        before = world.placed()
        world.epoch([("a", op, 1) for op in ops], time=100)
        gone = [row for row in before if row not in world.placed()]
        with world.store.read() as reader:
            kept = [part for bin in range(BINS) for part in reader.scan(Bin(bin))]
        deleted = entries.make([bin for bin, _ in gone], [key for _, key in gone], [None] * len(gone))
        append_delta(log, operator.name, epoch, entries.merge_last_wins([*kept, deleted]), route)
    return folder


def test_the_command_shows_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each variable and the timers, at any epoch; removed entries are changes, and a list has none."""
    path = str(written(tmp_path))
    main([path, "--epoch", "0"])
    shown = capsys.readouterr().out
    for line in (
        "list rows",
        "value rows",
        "map rows",
        "timers rows",
        "list_element.n",
        "user_map_key.u",
        "expiration_timestamp_ms",
    ):
        assert line in shown
    main([path, "--name", "map", "--changes", "0", "1", "--output", "json"])
    changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["change_type"], each["user_map_key"]) for each in changes] == [
        ("update", {"u": "u1"}),
        ("delete", {"u": "u1"}),
    ]
    assert changes[1]["user_map_value"] is None
    main([path, "--name", "value"])
    assert "no rows" in capsys.readouterr().out
    with pytest.raises(InvalidQuery, match="no change feed"):
        main([path, "--name", "list", "--changes", "0", "1"])
