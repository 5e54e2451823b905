"""Processors whose state variables change while there is state: what is read, what is refused, and with which condition."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from processor_world import World, struct
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift.errors import IncompatibleState, LogDamaged
from binshift.operators.processor.chunks import ChunkCodec
from binshift.operators.processor.evolution import Encoding, History, Rules, Wanted, check_keys, evolve, variables_of
from binshift.operators.processor.lists import CHUNK_ELEMENTS
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind, TupleCodec, inner_schema
from binshift.operators.processor.versions import is_schema_readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """Values, elements and entries have the newest schema, with Spark's types, and a map's key is a column of the key."""
    world = World(Keeping(V1, lambda v: (v, "s", AT)), SEEN, rules=AVRO)
    world.epoch([("a", 1)])
    world = world.with_processor(Keeping(V2, lambda v: ([v], v, AT)))
    world.epoch([("b", 2)])
    at = AT.replace(tzinfo=UTC)
    value = {"more": None, "n": 1, "at": at}, {"more": [2], "n": 2, "at": at}
    assert sorted(world.read("value"), key=str) == [({"k": "a"}, value[0]), ({"k": "b"}, value[1])]
    assert sorted(world.read("list"), key=str) == [({"k": "a"}, value[0]), ({"k": "b"}, value[1])]
    keys = [{"k": key, "user_map_key": {"u": number}} for key, number in (("a", 1), ("b", 2))]
    assert sorted(world.read("map"), key=str) == list(zip(keys, value, strict=True))


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


def wanted(schema: T.StructType, kind: Kind = Kind.VALUE, **more: Any) -> Wanted:
    """A variable named v."""
    user_key = more.pop("user_key", None)
    keys = None if user_key is None else to_arrow_schema(user_key, timezone="UTC")
    return Wanted("v", kind, to_arrow_schema(schema, timezone="UTC"), keys, **more)


N = struct(n=T.IntegerType())
LONG = struct(n=T.LongType())
NOT_NULL = T.StructType([T.StructField("n", T.IntegerType(), False)])
BY_LONG = struct(u=T.LongType())


@pytest.mark.parametrize(
    ("rules", "was", "now", "condition"),
    [
        (AVRO, wanted(LONG), wanted(N), "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
        (AVRO, wanted(N), wanted(struct(n=T.StringType())), "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
        (AVRO, wanted(N, ttl_ms=5), wanted(N), "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
        (AVRO, wanted(N), wanted(N, Kind.LIST), "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"),
        (AVRO, wanted(N), wanted(NOT_NULL), "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE"),
        (
            AVRO,
            wanted(N, Kind.MAP, user_key=BY_LONG),
            wanted(N, Kind.MAP, user_key=N),
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        ),
        (UNSAFE, wanted(N), wanted(LONG), "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        (
            UNSAFE,
            wanted(N),
            wanted(struct(n=T.IntegerType(), m=T.LongType())),
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        ),
        (UNSAFE, wanted(N), wanted(N, ttl_ms=5), "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        (UNSAFE, wanted(NOT_NULL), wanted(N), "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        (UNSAFE, wanted(N), wanted(N, Kind.LIST), "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"),
    ],
)
def test_other_changes_are_refused(rules: Rules, was: Wanted, now: Wanted, condition: str) -> None:
    """Each with the condition that Spark has for it."""
    known = evolve((), [was], (), rules)
    with pytest.raises(IncompatibleState, match=rf"^\[{condition}\]"):
        evolve(known, [now], (), rules)


def test_other_grouping_keys_are_refused() -> None:
    """By their types; their names are not compared."""
    check_keys(inner(N), inner(struct(other=T.IntegerType())))
    with pytest.raises(IncompatibleState, match=r"^\[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE\]"):
        check_keys(inner(N), inner(LONG))


def inner(schema: T.StructType) -> pa.Schema:
    """The Arrow form."""
    return inner_schema(to_arrow_schema(schema, timezone="UTC"))


def test_every_version_must_be_readable() -> None:
    """A column that was removed cannot come back with a type that its oldest rows do not fit."""
    known = evolve((), [wanted(struct(n=T.StringType(), m=T.LongType()))], (), AVRO)
    known = evolve(known, [wanted(struct(m=T.LongType()))], (), AVRO)
    with pytest.raises(IncompatibleState, match="INVALID_VALUE_SCHEMA_EVOLUTION"):
        evolve(known, [wanted(struct(m=T.LongType(), n=T.LongType()))], (), AVRO)


def test_the_number_of_evolutions_is_limited() -> None:
    """By Spark's conf, which the message names."""
    rules = Rules(Encoding.AVRO, evolutions_max=1)
    known = evolve((), [wanted(N)], (), rules)
    known = evolve(known, [wanted(LONG)], (), rules)
    assert evolve(known, [wanted(LONG)], (), rules) == known
    with pytest.raises(
        IncompatibleState, match=r"evolutions 2 exceeds .*, 1, allowed.*valueStateSchemaEvolutionThreshold"
    ):
        evolve(known, [wanted(struct(n=T.DoubleType()))], (), rules)


def test_without_avro_columns_can_be_renamed() -> None:
    """Spark compares types only; old rows have the new names."""
    known = evolve((), [wanted(N)], (), UNSAFE)
    (found,) = evolve(known, [wanted(struct(m=T.IntegerType()))], (), UNSAFE)
    assert [schema.names for schema in found.versions] == [["m"]]


def test_variables_come_and_go() -> None:
    """New ones get new numbers; one that is missing keeps its state; a deleted one's number is never used again."""
    other = Wanted("a", Kind.LIST, inner(N))
    known = evolve((), [wanted(N)], (), UNSAFE)
    known = evolve(known, [other], (), UNSAFE)
    assert [(each.name, each.number) for each in known] == [("v", 0), ("a", 1)]
    assert [each.name for each in variables_of(known, [other])] == ["a"]
    assert evolve(known, [wanted(N)], (), UNSAFE) == known
    known = evolve(known, [], ["v"], UNSAFE)
    known = evolve(known, [wanted(LONG)], (), UNSAFE)
    assert [(each.name, each.number, each.deleted) for each in known] == [
        ("v", 0, True),
        ("a", 1, False),
        ("v", 2, False),
    ]
    assert [each.number for each in variables_of(known, [wanted(LONG)])] == [2]


def test_unknown_versions_are_damage() -> None:
    """A row of a schema that the log does not have is not misread."""
    newer = TupleCodec([inner(N), inner(LONG)], expires=False).pack([(1,)])
    with pytest.raises(LogDamaged, match="schema version 2 of a state variable with 1"):
        TupleCodec([inner(N)], expires=False).unpack(newer)
    chunk = ChunkCodec([inner(N), inner(LONG)]).pack([[((1,), 5)]])
    with pytest.raises(LogDamaged, match="schema version 2"):
        ChunkCodec([inner(N)]).unpack(chunk)


FIELD_TYPES: dict[str, T.DataType] = {
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "boolean": T.BooleanType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "binary": T.BinaryType(),
    "list": T.ArrayType(T.IntegerType()),
    "list of longs": T.ArrayType(T.LongType()),
    "map": T.MapType(T.StringType(), T.IntegerType()),
    "map of longs": T.MapType(T.StringType(), T.LongType()),
    "struct": struct(a=T.IntegerType()),
    "struct with more": struct(b=T.StringType(), a=T.LongType()),
}
STRICTER = {("binary", "string")}
"""What binshift refuses, and Spark does not: bytes need not be a string."""


def test_what_is_readable_is_what_sparks_checker_accepts(spark: SparkSession) -> None:
    """Every pair of types has the verdict of Spark's own conversion and of Avro's validator."""
    java = cast(Any, spark)._jvm
    converters = getattr(java, "org.apache.spark.sql.avro.SchemaConverters$")
    converters = getattr(converters, "MODULE$")
    validator = java.org.apache.avro.SchemaValidatorBuilder().canReadStrategy().validateAll()

    def avro(type: T.DataType) -> Any:
        parsed = java.org.apache.spark.sql.types.DataType.fromJson(struct(n=type).json())
        return converters.toAvroTypeWithDefaults(parsed)

    def accepts(was: T.DataType, now: T.DataType) -> bool:
        older = java.java.util.ArrayList()
        older.add(avro(was))
        try:
            validator.validate(avro(now), older)
        except Py4JJavaError as error:
            return "SchemaValidationException" not in str(error)
        return True

    for name, was in FIELD_TYPES.items():
        for other, now in FIELD_TYPES.items():
            if (name, other) not in STRICTER:
                found = is_schema_readable(inner(struct(n=was)), inner(struct(n=now)))
                assert found == accepts(was, now), (name, other)


def test_a_history_is_what_a_variable_was() -> None:
    """Older schemas come before the newest one."""
    history = History(3, "v", Kind.VALUE, (inner(N), inner(LONG)))
    variable = history.variable(None)
    assert variable.schemas == (inner(N), inner(LONG))
    assert variable.schema == inner(LONG)
