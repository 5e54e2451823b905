"""The properties of an operator that runs a processor, as Spark's ``state-metadata`` has them."""

from __future__ import annotations

import json
import re
from typing import Final

from binshift.log.records.formats import OperatorFormat
from binshift.log.records.schemas import SchemasFile
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind
from binshift.state.variables import histories_of

KIND_NAMES: Final = {Kind.VALUE: "ValueState", Kind.LIST: "ListState", Kind.MAP: "MapState"}
"""Spark's names of what a variable holds."""

TIMERS: Final = {
    TimeMode.EVENT: "$eventTimers_keyToTimestamp",
    TimeMode.PROCESSING: "$procTimers_keyToTimestamp",
}
"""Spark's names of the variable with the registered timers."""

_MODES: Final = re.compile(r"(\w+) mode; (\w+) time")


def modes_text(output: str, time: TimeMode) -> str:
    """The description of an operator that runs a processor, from which `operator_properties` has its modes."""
    return f"{output} mode; {time.value} time"


def operator_properties(operator: OperatorFormat, schemas: SchemasFile) -> str:
    """Time mode, output mode and variables of a processor as JSON; the description of any other operator.

    Raises:
        LogDamaged, ForeignLog: as `histories_of`.
    """
    found = _MODES.fullmatch(operator.description)
    if found is None:
        return operator.description
    output, time = found[1], TimeMode(found[2])
    histories = (each for own in schemas.operators if own.name == operator.name for each in histories_of(own))
    variables = [
        _variable(each.name, KIND_NAMES[each.kind], ttl=each.expires) for each in histories if not each.deleted
    ]
    if time in TIMERS:
        variables.append(_variable(TIMERS[time], "TimerState", ttl=False))
    return json.dumps({"timeMode": time.in_plans, "outputMode": output, "stateVariables": variables})


def _variable(name: str, kind: str, *, ttl: bool) -> dict[str, object]:
    return {"stateName": name, "stateVariableType": kind, "ttlEnabled": ttl}
