"""The children of a dataflow with a standby driver: two drivers that know themselves, and executors that find the active one."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import WITH_STANDBY
from test_children_rendering import all_of, dataflow, pods

from binshift.memory import HEAP_MIB_MIN, STANDBY_MIB
from binshift.ports import Ports
from binshift_operator.children.spark_conf import spark_conf
from binshift_operator.model.drivers import driver_count
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.names import DRIVER, LABEL_COMPONENT, Child

HOSTS = "clicks-driver-0.clicks-driver,clicks-driver-1.clicks-driver"
ENCRYPTED = {**WITH_STANDBY, "spec.encryption": {"secretName": "tls"}}


def variables(pod: dict[str, Any], container: int = 0) -> dict[str, Any]:
    """Those of a container that have a value."""
    return {each["name"]: each.get("value") for each in pod["spec"]["containers"][container]["env"]}


def test_each_driver_has_its_own_master() -> None:
    """Both drivers' pods have one template: each waits for its activation, and its program uses the master in its own pod."""
    driver, _ = pods(WITH_STANDBY)
    found = variables(driver)
    assert found["BINSHIFT_DRIVER_HOSTS"] == HOSTS
    assert variables(driver, 1)["BINSHIFT_DRIVER_HOSTS"] == HOSTS
    assert found["BINSHIFT_MASTER"] == "spark://$(BINSHIFT_POD).clicks-driver:7077"
    assert list(found).index("BINSHIFT_POD") < list(found).index("BINSHIFT_MASTER"), (
        "Kubernetes expands earlier variables only"
    )
    ports = {each["name"]: each["containerPort"] for each in driver["spec"]["containers"][0]["ports"]}
    assert ports["active"] == Ports().active


def test_executors_reach_the_active_driver_by_the_relay() -> None:
    """Executors know both drivers by name, and call the control API through the relay on loopback."""
    _, executor = pods(WITH_STANDBY)
    found = variables(executor)
    assert found["BINSHIFT_DRIVER_HOSTS"] == HOSTS
    assert "BINSHIFT_MASTER" not in found
    assert found["BINSHIFT_CONTROL_URL"] == f"http://127.0.0.1:{Ports().control_relay}"
    assert "hostAliases" not in executor["spec"]


def test_an_executors_pod_has_a_worker_of_each_driver() -> None:
    """Every port of it is declared, and the process that runs both workers answers the kubelet: one of them may be away."""
    worker = pods(ENCRYPTED)[1]["spec"]["containers"][0]
    probed = {name: worker[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: each["path"] for name, each in probed.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert all(each == {"path": each["path"], "port": "health"} for each in probed.values()), "it has no certificate"
    table = Ports()
    ports = {each["containerPort"] for each in worker["ports"]}
    of_drivers = [table.of_driver(index) for index in range(2)]
    expected = {number for each in of_drivers for number in (each.worker, each.executor_blocks)}
    assert ports == expected | {table.executor_health}
    assert len(expected) == 4


def test_the_standbys_executor_has_memory() -> None:
    """The heap is smaller with a standby driver. The default memory is enough for both, and for standing tasks."""
    large = {"spec.executor": {"resources": {"limits": {"memory": "8Gi"}}}}
    alone, waiting = (spark_conf(dataflow({**each, **large})) for each in ({}, WITH_STANDBY))
    assert _heap_mib(waiting) == _heap_mib(alone) - STANDBY_MIB // 2
    by_default = spark_conf(dataflow(WITH_STANDBY))
    assert _heap_mib(by_default) == HEAP_MIB_MIN
    assert by_default["spark.executor.cores"] == spark_conf(dataflow())["spark.executor.cores"] == "3"


def _heap_mib(conf: dict[str, str]) -> int:
    return int(conf["spark.executor.memory"].removesuffix("m"))


def test_a_certificate_has_its_name_on_loopback() -> None:
    """With encryption, the name of the certificate leads an executor to the relay; in a driver's pod it does not."""
    driver, executor = pods(ENCRYPTED)
    assert variables(executor)["BINSHIFT_CONTROL_URL"] == f"https://clicks-driver.ns.svc:{Ports().control_relay}"
    assert executor["spec"]["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["clicks-driver.ns.svc"]}]
    assert "hostAliases" not in driver["spec"]


def test_host_aliases_of_the_user_stay() -> None:
    """A pod template's own host aliases are kept in addition."""
    theirs = {"ip": "10.0.0.9", "hostnames": ["kafka"]}
    template = {"spec": {"hostAliases": [theirs]}}
    _, executor = pods({**ENCRYPTED, "spec.executor": {"pod": {"template": template}}})
    assert theirs in executor["spec"]["hostAliases"]
    assert len(executor["spec"]["hostAliases"]) == 2


def test_one_driver_can_be_evicted_at_a_time() -> None:
    """The drivers have a disruption budget of their own, and prefer different nodes."""
    children = all_of(WITH_STANDBY)
    budget = children[Child.DRIVER_DISRUPTION_BUDGET]
    assert budget["metadata"]["name"] == "clicks-driver"
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"]["matchLabels"][LABEL_COMPONENT] == DRIVER
    spread = children[Child.DRIVER]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    over = {(each["topologyKey"], each["whenUnsatisfiable"]) for each in spread}
    assert ("kubernetes.io/hostname", "ScheduleAnyway") in over


@pytest.mark.parametrize("value", [False, None])
def test_without_it_nothing_changes(value: bool | None) -> None:
    """A dataflow without a standby is rendered as if the field did not exist, and the field's default is no edit."""
    changes = {} if value is None else {"spec.driver": {"standby": value}}
    assert driver_count(dataflow(changes)) == 1
    assert Child.DRIVER_DISRUPTION_BUDGET not in all_of(changes)
    assert dataflow_hash(dataflow(changes)) == dataflow_hash(dataflow())
    text = str(pods(changes))
    assert not any(name in text for name in ("DRIVER_HOSTS", "7404", "7414", "7415", "7416", "7080"))


def test_with_it_the_dataflow_restarts() -> None:
    """The edit of the field is one of the dataflow class."""
    assert dataflow_hash(dataflow(WITH_STANDBY)) != dataflow_hash(dataflow())
