"""Processors whose state variables change while there is state: what is read of rows that earlier programs have written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from processor_world import World, struct
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift.operators.processor.evolution import Encoding, Rules
from binshift.operators.processor.lists import CHUNK_ELEMENTS
from binshift.operators.processor.operator import TimeMode

AVRO, UNSAFE = Rules(Encoding.AVRO), Rules(Encoding.UNSAFE_ROW)
SEEN = struct(k=T.StringType(), seen=T.StringType())

V1 = struct(n=T.IntegerType(), s=T.StringType(), at=T.TimestampType())
V2 = struct(more=T.ArrayType(T.LongType()), n=T.LongType(), at=T.TimestampType())
V3 = struct(at=T.TimestampType(), n=T.DoubleType(), s=T.StringType())
AT = datetime(2024, 3, 1, 12)


class Keeping(StatefulProcessor):
    """Stores a value, an element and an entry for every row with a value, and returns all it has.

    Args:
        schema: of each variable.
        values: of what it stores.
        define: defines other variables.
        ttl_ms: of each variable.
    """

    def __init__(
        self,
        schema: T.StructType,
        values: Callable[[int], tuple[Any, ...]] = lambda _: (),
        define: Callable[[Any], Any] | None = None,
        ttl_ms: int | None = None,
    ) -> None:
        self.schema, self.values, self.define, self.ttl = schema, values, define, ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        if self.define is not None:
            self.define(handle)
            return
        self.value = handle.getValueState("value", self.schema, self.ttl)
        self.list = handle.getListState("list", self.schema, self.ttl)
        self.map = handle.getMapState("map", struct(u=T.LongType()), self.schema, self.ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row.v is not None:
                self.value.update(self.values(row.v))
                self.list.appendValue(self.values(row.v))
                self.map.updateValue((row.v,), self.values(row.v))
        found = self.value.get(), list(self.list.get()), [(u[0], tuple(value)) for u, value in self.map.iterator()]
        yield Row(k=key[0], seen=repr(found))


def after(world: World, *rows: tuple[str, int | None]) -> list[str]:
    """What the keys have after these rows."""
    return [row["seen"] for row in world.epoch(rows)]


@pytest.mark.parametrize("ttl_ms", [None, 1000])
def test_rows_of_every_version_are_read(ttl_ms: int | None) -> None:
    """New columns are null in old rows; removed, reordered and widened ones are read; what is written has the newest schema."""
    world = World(Keeping(V1, lambda v: (v, "s", AT), ttl_ms=ttl_ms), SEEN, TimeMode.PROCESSING, rules=AVRO)
    assert after(world, ("a", 1)) == [repr(((1, "s", AT), [(1, "s", AT)], [(1, (1, "s", AT))]))]
    world = world.with_processor(Keeping(V2, lambda v: ([v], v << 40, AT), ttl_ms=ttl_ms))
    old, new = (None, 1, AT), ([2], 2 << 40, AT)
    assert after(world, ("a", None)) == [repr((old, [old], [(1, old)]))]
    assert after(world, ("a", 2)) == [repr((new, [old, new], [(1, old), (2, new)]))]
    world = world.with_processor(Keeping(V3, lambda v: (None, v / 2, "t"), ttl_ms=ttl_ms))
    first, second, third = (AT, 1.0, "s"), (AT, float(2 << 40), None), (None, 1.5, "t")
    # What the first schema wrote still has s, which the second one lacks.
    assert after(world, ("a", 3)) == [repr((third, [first, second, third], [(1, first), (2, second), (3, third)]))]
    assert [each.number for each in world.operator.variables] == [0, 1, 2]
    assert {len(each.schemas) for each in world.operator.variables} == {3}


def test_lists_have_chunks_of_several_versions() -> None:
    """A long list keeps the chunks that it had, and is read in its order."""
    world = World(Keeping(struct(n=T.IntegerType()), lambda v: (v,)), SEEN, rules=AVRO)
    world.epoch([("a", at) for at in range(CHUNK_ELEMENTS + 1)])
    world = world.with_processor(Keeping(struct(m=T.LongType(), n=T.LongType()), lambda v: (-v, v)))
    world.epoch([("a", at) for at in range(CHUNK_ELEMENTS)])
    (seen,) = after(world, ("a", None))
    _, found, _ = ast.literal_eval(seen)
    assert [n for _, n in found] == [*range(CHUNK_ELEMENTS + 1), *range(CHUNK_ELEMENTS)]
    assert {m is None for m, _ in found} == {True, False}


def test_the_state_source_reads_rows_of_older_versions() -> None:
    """Values, elements and entries have the newest schema, with Spark's types."""
    world = World(Keeping(V1, lambda v: (v, "s", AT)), SEEN, rules=AVRO)
    world.epoch([("a", 1)])
    world = world.with_processor(Keeping(V2, lambda v: ([v], v, AT)))
    world.epoch([("b", 2)])
    at = AT.replace(tzinfo=UTC)
    value = {"more": None, "n": 1, "at": at}, {"more": [2], "n": 2, "at": at}
    assert sorted(world.read("value"), key=str) == [({"k": "a"}, value[0]), ({"k": "b"}, value[1])]
    assert sorted(world.read("list"), key=str) == [({"k": "a"}, value[0]), ({"k": "b"}, value[1])]
    keys = ({"k": "a"}, {"u": 1}), ({"k": "b"}, {"u": 2})
    assert sorted(world.read("map"), key=str) == [(*keys[0], value[0]), (*keys[1], value[1])]


def test_nested_columns_evolve() -> None:
    """Fields of structs are known by name inside of lists and maps as well; nulls stay null."""
    was = struct(x=T.ArrayType(struct(a=T.IntegerType())), m=T.MapType(T.StringType(), struct(a=T.IntegerType())))
    inner = struct(b=T.StringType(), a=T.LongType())
    now = struct(m=T.MapType(T.StringType(), inner), x=T.ArrayType(inner), y=inner)
    world = World(
        Keeping(was, lambda v: ([(v,), None], {"k": (v,), "l": None}) if v else (None, None)), SEEN, rules=AVRO
    )
    world.epoch([("a", 7), ("b", 0)])
    world = world.with_processor(Keeping(now))
    found = {row["k"]: row["seen"] for row in world.epoch([("a", None), ("b", None)])}
    assert found["a"].startswith("(({'k': Row(b=None, a=7), 'l': None}, [Row(b=None, a=7), None], None), [")
    assert found["b"].startswith("((None, None, None), [")
