"""The properties of processors in the metadata of a checkpoint: Spark's names, as JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from binshift.log.records.formats import OperatorFormat
from binshift.log.records.schemas import NO_SCHEMAS, SchemasFile
from binshift.operators.processor.evolution import Encoding, History
from binshift.operators.processor.variables import Kind
from binshift.state.properties import operator_properties
from binshift.state.variables import to_schemas

KEYS, VALUES = pa.schema([("k", pa.string())]), (pa.schema([("n", pa.int64())]),)
NAME = "0.processor"


@pytest.mark.parametrize(
    ("time", "spark", "timers"),
    [
        ("None", "NoTime", []),
        ("EventTime", "EventTime", ["$eventTimers_keyToTimestamp"]),
        ("ProcessingTime", "ProcessingTime", ["$procTimers_keyToTimestamp"]),
    ],
)
def test_a_processor_has_its_modes_and_variables(time: str, spark: str, timers: list[str]) -> None:
    """Without deleted ones, and with the timers of its time mode."""
    histories = (
        History(1, "sum", Kind.VALUE, VALUES, expires=True),
        History(2, "seen", Kind.MAP, VALUES, KEYS),
        History(3, "old", Kind.LIST, VALUES, deleted=True),
    )
    schemas = SchemasFile(number=1, operators=(to_schemas(NAME, Encoding.AVRO, KEYS, histories),))
    found = json.loads(operator_properties(OperatorFormat(NAME, "", f"Update mode; {time} time"), schemas))
    assert (found["timeMode"], found["outputMode"]) == (spark, "Update")
    assert found["stateVariables"] == [
        {"stateName": "sum", "stateVariableType": "ValueState", "ttlEnabled": True},
        {"stateName": "seen", "stateVariableType": "MapState", "ttlEnabled": False},
        *({"stateName": name, "stateVariableType": "TimerState", "ttlEnabled": False} for name in timers),
    ]


def test_other_operators_have_their_description() -> None:
    """It informs people."""
    assert operator_properties(OperatorFormat("0.count", "", "count; update mode"), NO_SCHEMAS) == "count; update mode"
