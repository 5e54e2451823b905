"""The types of keys: what the state has, what Spark refuses, and maps in a form that Spark hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import UnsupportedOperationException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, YearMonthIntervalType

from binshift.errors import Unsupported
from binshift.spark.stages.keytypes import check_keys, hashable, is_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("array<int>", True),
        ("struct<a:array<struct<m:map<string,double>>>>", True),
        ("map<string,array<decimal(38,2)>>", True),
        ("void", True),
        ("interval day to second", True),
        ("interval year to month", False),
        ("array<interval year to month>", False),
        ("string collate UTF8_LCASE", False),
        ("variant", False),
    ],
)
def test_types_of_keys(spark: SparkSession, type: str, expected: bool) -> None:
    """Nested types are keys if their parts are; what Arrow or equality by bytes does not have is none."""
    schema = spark.sql(f"SELECT CAST(NULL AS {type}) AS k").schema
    assert is_key(schema[0].dataType) is expected


def test_keys_that_are_refused() -> None:
    """A collation is refused by Spark's own error, another type by ours, with the key's name."""
    check_keys("groupBy", [StructField("k", LongType())])
    collated = StructField("c", StructType([StructField("x", StringType("UNICODE_CI"))]))
    with pytest.raises(
        UnsupportedOperationException, match=r"^\[STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY\]"
    ):
        check_keys("groupBy", [StructField("k", LongType()), collated])
    with pytest.raises(Unsupported, match="dropDuplicates by m: a key of type interval year to month"):
        check_keys("dropDuplicates by", [StructField("m", YearMonthIntervalType())])


def test_maps_are_hashed_as_lists_of_entries(spark: SparkSession) -> None:
    """At any depth; null stays null, and what has no map stays as it is."""
    frame = spark.sql("SELECT array(struct(map('a', 1) AS m), null) AS k, map('b', map(1, 2)) AS n, array(1) AS a")
    hashed = frame.select(*(hashable(F.col(each.name), each.dataType).alias(each.name) for each in frame.schema))
    row = hashed.select("*", F.xxhash64("k", "n", "a").alias("hash")).first()
    assert row is not None
    assert [each and each["m"][0].asDict() for each in row["k"]] == [{"key": "a", "value": 1}, None]
    assert row["n"][0]["key"] == "b"
    assert row["a"] == [1]
    assert hashed.schema["a"] == frame.schema["a"]
