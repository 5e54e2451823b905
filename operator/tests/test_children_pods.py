"""The pods' settings for the kubelet, the scheduler, evictions and Spark's memory."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import WITH_STANDBY
from test_children_rendering import all_of, dataflow, pods

from binshift.errors import InvalidSettings
from binshift.ports import Ports
from binshift_operator import watching
from binshift_operator.children import RenderContext, render, render_secret
from binshift_operator.children.spark_conf import spark_conf
from binshift_operator.model.names import Child


def test_how_a_container_ended_is_kept() -> None:
    """Whatever ends, the end of its log is in the pod's status."""
    containers = [each for pod in pods() for each in pod["spec"]["containers"]]
    assert {each["name"] for each in containers} == {"driver", "master", "worker"}
    assert {each["terminationMessagePolicy"] for each in containers} == {"FallbackToLogsOnError"}


def test_an_executor_is_ready_once_it_is_there() -> None:
    """Spark's worker listens before there is an executor: readiness asks the executor itself, life and start only the worker."""
    worker = pods()[1]["spec"]["containers"][0]
    probed = {name: worker[f"{name}Probe"]["tcpSocket"]["port"] for name in ("startup", "liveness", "readiness")}
    assert probed == {"startup": Ports().worker, "liveness": Ports().worker, "readiness": Ports().executor_blocks}
    assert probed["readiness"] in {each["containerPort"] for each in worker["ports"]}


def test_what_is_not_ready_may_be_evicted() -> None:
    """One ready executor can be evicted at a time; executors that wait for a program do not block a node."""
    spec = all_of()[Child.DISRUPTION_BUDGET]["spec"]
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_nothing_waits_for_readiness() -> None:
    """No StatefulSet waits for one pod before the next, and no service hides one: executors are ready only once a driver has found them."""
    children = all_of()
    for child in (Child.DRIVER, Child.EXECUTORS):
        assert children[child]["spec"]["podManagementPolicy"] == "Parallel"
        assert "minReadySeconds" not in children[child]["spec"]
    for child in (Child.DRIVER_SERVICE, Child.EXECUTOR_SERVICE):
        assert children[child]["spec"]["publishNotReadyAddresses"] is True


def test_what_is_watched_carries_the_label() -> None:
    """The API server is queried for objects with the operator's label: every child and each of their pods has it."""
    children = all_of(WITH_STANDBY)
    watched = [*children.values(), render_secret(dataflow().key, lambda: "x"), *pods()]
    assert len(watched) == len(Child) + 2
    for each in watched:
        assert watching.CHILD_LABELS.items() <= each["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("given", "shown"),
    [("1g", "1g"), ("900m", "900m"), ("2gb", "2048m"), ("2GB", "2048m"), ("1200", "1200m"), (" 1t ", "1048576m")],
)
def test_sizes_as_spark_writes_them(given: str, shown: str) -> None:
    """Every notation of Spark's is taken, and handed on in one that Java has, too."""
    sizes = {"spark.executor.memory": given, "spark.driver.memory": given}
    found = dataflow({"spec.sparkConf": sizes})
    assert {name: spark_conf(found)[name] for name in sizes} == dict.fromkeys(sizes, shown)
    env = {
        each["name"]: each.get("value") for each in pods({"spec.sparkConf": sizes})[1]["spec"]["containers"][0]["env"]
    }
    assert env["BINSHIFT_EXECUTOR_MEMORY"] == shown


SMALL: dict[str, Any] = {"spec.executor": {"resources": {"limits": {"memory": "600Mi"}}}}


def test_unrenderable_children_are_listed() -> None:
    """What cannot be rendered is reported with the error; everything else is rendered as usual."""
    context = RenderContext("binshift-system", "binshift")
    found, wrong = render(dataflow(SMALL), "k", context)
    assert set(wrong) == {Child.SPARK_CONF, Child.EXECUTORS}
    assert "give its container" in str(wrong[Child.EXECUTORS])
    assert set(found) | set(wrong) == set(Child) - {Child.KEYS, Child.DRIVER_DISRUPTION_BUDGET}
    assert render(dataflow(), "k", context) == (all_of(), {})
    with pytest.raises(InvalidSettings, match=r"'2Gi'.*such as 900m"):
        all_of({"spec.sparkConf": {"spark.driver.memory": "2Gi"}})
