"""`binshift.testing.TwsTester`: PySpark's own tests of it, and what it does beyond PySpark's."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.tws_tester import TwsTester as PySparks
from pyspark.sql.types import ArrayType, DecimalType, LongType, MapType, StringType, StructField, StructType

from binshift.errors import InvalidQuery
from binshift.spark.testing.ddl import parse
from binshift.testing import TwsTester

RUNTIME = Path(__file__).resolve().parents[1]


def test_pysparks_own_tests_pass() -> None:
    """All that need no query, without Spark."""
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    command = [sys.executable, "-m", "conformance.tester_tests"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    assert "Ran 56 tests" in found.stderr


def test_the_interface_is_pysparks() -> None:
    """Every public method, with the names of its parameters."""
    for name, method in inspect.getmembers(PySparks, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            ours = getattr(TwsTester, name)
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(method).parameters), name


class Keeping(StatefulProcessor):
    """Keeps the newest value, with a time to live if that is given."""

    def __init__(self, ttl_ms: int | None = None, schema: str = "n long, d double") -> None:
        self.ttl_ms, self.schema = ttl_ms, schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", self.schema, self.ttl_ms)
        self.list = handle.getListState("list", "n long", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.value.update(row.value)
            self.list.appendValue((row.value[0],))
        yield Row(value=self.value.get())


def test_values_have_the_types_of_their_schemas() -> None:
    """As in a query, a value of another type becomes null, and a row of another length is an error."""
    tester = TwsTester(Keeping())
    assert tester.test("a", [Row(value=(1.5, 2.5))]) == [Row(value=(None, 2.5))]
    with pytest.raises(PySparkRuntimeError, match="2 fields are required while 1 values are provided"):
        tester.test("a", [Row(value=(1,))])


def test_state_ends_with_its_time_to_live() -> None:
    """Values and elements are gone when their time is over, which a test sets."""
    tester = TwsTester(Keeping(100), timeMode="ProcessingTime")
    tester.test("a", [Row(value=(1, 1.0))])
    tester.setProcessingTime(60)
    tester.test("b", [Row(value=(2, 2.0))])
    tester.setProcessingTime(100)
    assert (tester.peekValueState("value", "a"), tester.peekListState("list", "a")) == (None, [])
    assert (tester.peekValueState("value", "b"), tester.peekListState("list", "b")) == ((2, 2.0), [(2,)])


def test_mistakes_in_init_are_sparks_errors() -> None:
    """A time to live needs processing time."""
    with pytest.raises(PySparkRuntimeError, match="STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL"):
        TwsTester(Keeping(100))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: bigint, b string", StructType([StructField("a", LongType()), StructField("b", StringType())])),
        ("`a, b` long not null comment 'x, y'", StructType([StructField("a, b", LongType(), False)])),
        (
            "m map<string, array<decimal(5,2)>>",
            StructType([StructField("m", MapType(StringType(), ArrayType(DecimalType(5, 2))))]),
        ),
        ("long", StructType([StructField("value", LongType())])),
        (
            "s struct<x: long, y: string>",
            StructType([StructField("s", StructType([StructField("x", LongType()), StructField("y", StringType())]))]),
        ),
    ],
)
def test_schemas_are_parsed_without_spark(text: str, expected: StructType) -> None:
    """Columns with types, or one type."""
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a foo", "a array<long", "a long,", "a long b long", "a decimal(x)", "a ?"])
def test_other_texts_are_refused(text: str) -> None:
    """The message has the text and the remedy."""
    with pytest.raises(InvalidQuery, match="is no schema that can be read without Spark"):
        parse(text)
