"""What a program may change of its processor's state variables: Spark's rules and conditions, without and with Avro."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from processor_world import struct
from py4j.protocol import Py4JJavaError
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from binshift.errors import IncompatibleState, LogDamaged
from binshift.operators.processor.chunks import ChunkCodec, Elements
from binshift.operators.processor.evolution import Encoding, History, Rules, Wanted, check_keys, evolve, variables_of
from binshift.operators.processor.variables import Kind, TupleCodec, inner_schema
from binshift.operators.processor.versions import is_schema_readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO, UNSAFE = Rules(Encoding.AVRO), Rules(Encoding.UNSAFE_ROW)


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
    chunk = ChunkCodec([inner(N), inner(LONG)]).pack([Elements([(1,)], [5])])
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
