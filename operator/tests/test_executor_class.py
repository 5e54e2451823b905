"""The two parts of the restart class: what replaces executors only, and what restarts the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_children_rendering import dataflow

from binshift_operator.model.executor_class import dataflow_hash

SIZE = "spec.executor.resources"
EXPLICIT: dict[str, Any] = {"spec.sparkConf": {"spark.executor.memory": "900m"}, "spec.executor.taskSlots": 3}


def resources(**limits: str) -> dict[str, Any]:
    """Limits of an executor with the default of memory, and the same requests."""
    amounts = {"memory": "2Gi"} | limits
    return {"requests": amounts, "limits": amounts}


@pytest.mark.parametrize(
    ("changes", "rolls"),
    [
        ({"spec.executor.pod.nodeSelector": {"disk": "fast"}}, True),
        ({"spec.executor.pod.env": [{"name": "A", "value": "1"}]}, True),
        ({"spec.executor.storage.sizeLimit": "5Gi"}, True),
        ({"spec.executor.drainTimeout": "5m"}, True),
        ({SIZE: {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}}, True),
        ({SIZE: resources(cpu="1500m")}, True),
        ({SIZE: resources(cpu="2")}, False),
        ({SIZE: resources(memory="3Gi")}, False),
        ({SIZE: resources(memory="2048Mi")}, True),
        ({"spec.executor.taskSlots": 4}, False),
        ({"spec.image": "example/clicks:2"}, False),
        ({"spec.application.args": ["x"]}, False),
        ({"spec.sparkConf": {"spark.sql.shuffle.partitions": "3"}}, False),
        ({"spec.driver.pod.nodeSelector": {"disk": "fast"}}, False),
        ({"spec.restartNonce": 1}, False),
    ],
)
def test_what_belongs_to_the_executors_alone(changes: dict[str, Any], rolls: bool) -> None:
    """An edit changes the hash of the whole; that of the dataflow class only if the driver, or what it requested, must change."""
    before, after = dataflow({}), dataflow(changes)
    assert before.restart_hash != after.restart_hash
    assert (dataflow_hash(before) == dataflow_hash(after)) is rolls


def test_explicit_heap_and_slots_leave_resources_to_the_executors() -> None:
    """With a heap and task slots of the spec, any amount of memory and CPU can be rolled; with only one of them, not the memory."""
    before = dataflow(EXPLICIT)
    assert dataflow_hash(before) == dataflow_hash(dataflow({**EXPLICIT, SIZE: resources(memory="4Gi", cpu="4")}))
    for name in EXPLICIT:
        part = {name: EXPLICIT[name]}
        assert dataflow_hash(dataflow(part)) != dataflow_hash(dataflow({**part, SIZE: resources(memory="4Gi")}))


def test_secrets_belong_to_the_dataflow() -> None:
    """Another content of a referenced Secret restarts everything: the driver has its values, too."""
    found = dataflow({})
    assert dataflow_hash(replace(found, secrets_hash="a")) != dataflow_hash(replace(found, secrets_hash="b"))


def test_an_invalid_amount_has_a_hash() -> None:
    """A quantity that cannot be parsed is reported when it is rendered, and does not end the reconciliation before."""
    assert dataflow_hash(dataflow({SIZE: {"limits": {"memory": "much", "cpu": "few"}}}))
