"""What encryption and Spark's UI change in the pods; without them, nothing of either is rendered."""

from __future__ import annotations

from typing import Any

from test_children_rendering import all_of, pods

from binshift.encryption import SPARK_CONF
from binshift.ports import Ports
from binshift_operator.model.names import Child

ENCRYPTED = {"spec.encryption": {"secretName": "tls"}}


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """The plain variables of a pod's first container."""
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"] if "value" in each}


def mounted(pod: dict[str, Any]) -> list[str]:
    """The containers that have the certificate's volume."""
    containers = pod["spec"]["containers"]
    return [each["name"] for each in containers if any(m["name"] == "binshift-tls" for m in each["volumeMounts"])]


def test_only_the_driver_has_the_key() -> None:
    """Of the Secret, an executor has the authority alone, and Spark's master has nothing."""
    driver, executor = pods(ENCRYPTED)
    items = {}
    for name, pod in (("driver", driver), ("executor", executor)):
        (volume,) = (each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "binshift-tls")
        assert volume["secretName"] == "tls"
        items[name] = [each["key"] for each in volume["items"]]
    assert items == {"driver": ["tls.crt", "tls.key"], "executor": ["ca.crt"]}
    assert (mounted(driver), mounted(executor)) == (["driver"], ["worker"])


def test_probes_and_executors_speak_tls() -> None:
    """Probes use HTTPS; executors call the Service by the name that the certificate is for, and know the authority."""
    driver, executor = pods(ENCRYPTED)
    container = driver["spec"]["containers"][0]
    probes = [container[each]["httpGet"] for each in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {(each["scheme"], each["port"]) for each in probes} == {("HTTPS", "health")}
    assert driver["metadata"]["annotations"]["binshift.dev/tls-secret"] == "tls"
    assert "binshift.dev/tls-secret" not in executor["metadata"]["annotations"]
    assert environment(driver)["BINSHIFT_TLS_DIRECTORY"] == "/etc/binshift/tls"
    assert environment(executor)["BINSHIFT_CONTROL_URL"] == "https://clicks-driver.ns.svc:7400"
    assert environment(executor)["BINSHIFT_CONTROL_CA"] == "/etc/binshift/tls/ca.crt"


def test_spark_encrypts() -> None:
    """Driver, master and executors read the same conf, which no key of the user's can weaken."""
    weaker = {"spec.sparkConf": {"spark.network.crypto.saslFallback": "true"}}
    text = all_of({**ENCRYPTED, **weaker})[Child.SPARK_CONF]["data"]["spark-defaults.conf"]
    found = dict(line.split(" ", 1) for line in text.splitlines())
    assert SPARK_CONF.items() <= found.items()


def test_without_it_nothing_is_rendered() -> None:
    """Pods of a dataflow that does not name them have neither certificate nor UI."""
    for pod in pods():
        assert mounted(pod) == []
        assert not {"BINSHIFT_TLS_DIRECTORY", "BINSHIFT_CONTROL_CA", "BINSHIFT_SPARK_UI"} & environment(pod).keys()
        assert "scheme" not in str(pod)
    assert "crypto" not in str(all_of({})[Child.SPARK_CONF])


def test_spark_ui_is_on_no_port_of_the_pod() -> None:
    """It is switched on for the driver alone, and its port is in no container, Service or NetworkPolicy."""
    driver, executor = pods({"spec.driver": {"sparkUI": True}})
    assert environment(driver)["BINSHIFT_SPARK_UI"] == "true"
    assert "BINSHIFT_SPARK_UI" not in environment(executor)
    assert str(Ports().spark_ui) not in str(all_of({"spec.driver": {"sparkUI": True}}).values())
    assert "BINSHIFT_SPARK_UI" not in environment(pods({"spec.driver": {"sparkUI": False}})[0])
