"""What the chart renders, by helm itself: who is scraped, what rules and dashboards become, what values are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import shipped
import yaml
from test_children_rendering import pods
from tools import tool

from binshift.ports import Ports

pytestmark = pytest.mark.chart

MONITORED = ("--api-versions", "monitoring.coreos.com/v1")
KUBERNETES = ("--kube-version", "1.29.0")
"""The oldest that the chart is for."""
SYSTEM = "binshift-system"


@pytest.fixture
def helm() -> str:
    """helm's path."""
    return tool("helm")


def run(helm: str, *options: str, chart: Path = shipped.CHART) -> subprocess.CompletedProcess[str]:
    """``helm template`` with these options."""
    command = [helm, "template", "binshift", str(chart), "--namespace", SYSTEM, *KUBERNETES, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(helm: str, *options: str, **values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """The chart's manifests by kind and name; ``values`` by their paths, with ``__`` for the dots."""
    settings = [f"{name.replace('__', '.')}={json.dumps(value)}" for name, value in values.items()]
    done = run(helm, *options, *(word for each in settings for word in ("--set-json", each)))
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a selector by labels chooses what has these."""
    return selector.items() <= labels.items()


def ports(pod: Mapping[str, Any]) -> dict[str, int]:
    """A pod's ports by name."""
    return {
        p["name"]: p["containerPort"] for container in pod["spec"]["containers"] for p in container.get("ports", [])
    }


def operator_pod(found: Mapping[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The template of the operator's pod."""
    template: dict[str, Any] = found["Deployment", "binshift-operator"]["spec"]["template"]
    return template


MONITORS = {
    ("PodMonitor", "binshift-operator"),
    ("PodMonitor", "binshift-dataflow"),
    ("PrometheusRule", "binshift"),
    ("ConfigMap", "binshift-dashboard-dataflow"),
    ("ConfigMap", "binshift-dashboard-operator"),
}


def test_monitoring_is_there_where_it_can_be(helm: str) -> None:
    """What is for Prometheus and Grafana is rendered where the Prometheus operator is known, and only there."""
    assert not rendered(helm).keys() & MONITORS
    assert rendered(helm, *MONITORED).keys() - rendered(helm).keys() == MONITORS


@pytest.mark.parametrize(
    ("part", "kind"), [("podMonitors", "PodMonitor"), ("rules", "PrometheusRule"), ("dashboards", "ConfigMap")]
)
def test_each_part_is_switched_by_itself(helm: str, part: str, kind: str) -> None:
    """A part is enabled or disabled by its value, whatever the cluster supports."""
    value = f"monitoring__{part}__enabled"
    on = rendered(helm, **{value: True}).keys()
    assert {k for k in on if k in MONITORS} == {k for k in MONITORS if k[0] == kind}
    off = rendered(helm, *MONITORED, **{value: False}).keys()
    assert {k for k in off if k in MONITORS} == {k for k in MONITORS if k[0] != kind}


def test_the_operator_is_scraped(helm: str) -> None:
    """The operator's PodMonitor and its service choose its pod, and a port that it has."""
    found = rendered(helm, *MONITORED)
    pod, monitor, service = (
        operator_pod(found),
        found["PodMonitor", "binshift-operator"],
        found["Service", "binshift-operator"],
    )
    (endpoint,), (port,) = monitor["spec"]["podMetricsEndpoints"], service["spec"]["ports"]
    assert selects(monitor["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"])
    assert selects(service["spec"]["selector"], pod["metadata"]["labels"])
    assert ports(pod)[endpoint["port"]] == ports(pod)[port["targetPort"]] == port["port"]
    assert {r["targetLabel"]: r["replacement"] for r in endpoint["relabelings"]} == {"job": "binshift-operator"}


def test_only_drivers_are_scraped(helm: str) -> None:
    """The PodMonitor of dataflows chooses the pods of drivers as the operator makes them, at the port of health and metrics."""
    found = rendered(helm, *MONITORED)
    monitor = found["PodMonitor", "binshift-dataflow"]["spec"]
    chosen = monitor["selector"]["matchLabels"]
    driver, executor = pods()
    assert selects(chosen, driver["metadata"]["labels"])
    for other in (executor, operator_pod(found), found["Pod", "binshift-operator-test"]):
        assert not selects(chosen, other["metadata"]["labels"])
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert ports(driver)[endpoint["port"]] == Ports().health
    assert (endpoint["path"], endpoint["interval"], endpoint["scrapeTimeout"]) == ("/metrics", "15s", "10s")


def test_targets_get_the_labels_that_rules_go_by(helm: str) -> None:
    """A driver's target has the job that rules use, and its dataflow's name, from a label of the pod."""
    monitor = rendered(helm, *MONITORED)["PodMonitor", "binshift-dataflow"]["spec"]
    by_label = {each["targetLabel"]: each for each in monitor["podMetricsEndpoints"][0]["relabelings"]}
    assert by_label["job"]["replacement"] == "binshift-dataflow"
    (source,) = by_label["dataflow"]["sourceLabels"]
    driver = pods()[0]["metadata"]["labels"]
    as_prometheus = {
        f"__meta_kubernetes_pod_label_{name.replace('.', '_').replace('/', '_')}": v for name, v in driver.items()
    }
    assert as_prometheus[source] == driver["app.kubernetes.io/instance"]


def test_alerts_use_the_namespaces_of_the_operator(helm: str) -> None:
    """Drivers are scraped in the namespaces that are watched, or in all."""
    monitor = rendered(helm, *MONITORED)["PodMonitor", "binshift-dataflow"]
    assert monitor["spec"]["namespaceSelector"] == {"any": True}
    monitor = rendered(helm, *MONITORED, watchNamespaces=["a", "b"])["PodMonitor", "binshift-dataflow"]
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


def test_prometheus_may_select_by_labels(helm: str) -> None:
    """Given labels are on PodMonitors and rules, in addition to the chart's own."""
    found = rendered(helm, *MONITORED, monitoring__labels={"release": "prometheus"})
    for kind, name in MONITORS:
        labels = found[kind, name]["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "binshift"
        assert (labels.get("release") == "prometheus") == (kind != "ConfigMap")


def rules_of(found: Mapping[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """All rules of the PrometheusRule."""
    return [rule for group in found["PrometheusRule", "binshift"]["spec"]["groups"] for rule in group["rules"]]


def test_rules_are_those_of_the_files(helm: str) -> None:
    """The PrometheusRule has every rule of rules/, unchanged."""
    assert rules_of(rendered(helm, *MONITORED)) == [rule for path in shipped.RULES for rule in shipped.rules(path)]


def test_single_alerts_are_changed(helm: str) -> None:
    """An alert is left out, or gets another expression, time or severity; all others stay."""
    changes = {
        "BinshiftLogGrowing": {"enabled": False},
        "BinshiftDriverDown": {"for": "9m", "labels": {"team": "streams"}},
    }
    before = rules_of(rendered(helm, *MONITORED))
    after = rules_of(rendered(helm, *MONITORED, monitoring__rules__alerts=changes))
    changed = next(rule for rule in after if rule.get("alert") == "BinshiftDriverDown")
    assert (changed["for"], changed["labels"]) == ("9m", {"severity": "critical", "team": "streams"})
    assert [rule for rule in after if rule not in before] == [changed]
    gone = {rule["alert"] for rule in before if rule not in after} - {"BinshiftDriverDown"}
    assert gone == {"BinshiftLogGrowing"}


def test_an_alert_that_is_not_there_cannot_be_changed(helm: str) -> None:
    """A misspelt alert is refused, with the names that there are."""
    done = run(helm, *MONITORED, "--set-json", 'monitoring.rules.alerts={"BinshiftDown": {"enabled": false}}')
    assert done.returncode != 0
    assert "BinshiftDown" in done.stderr
    assert "BinshiftDriverDown" in done.stderr


def test_dashboards_are_those_of_the_files(helm: str) -> None:
    """Each dashboard is a ConfigMap that Grafana's sidecar finds, with the file unchanged."""
    given = {"labels": {"grafana_dashboard": "1"}, "annotations": {"grafana_folder": "Streams"}, "namespace": "grafana"}
    found = rendered(helm, *MONITORED, monitoring__dashboards=given)
    for path in shipped.DASHBOARDS:
        config = found["ConfigMap", f"binshift-dashboard-{path.stem}"]
        assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert config["metadata"]["annotations"] == {"grafana_folder": "Streams"}
        assert config["metadata"]["namespace"] == "grafana"
        assert json.loads(config["data"][f"binshift-{path.name}"]) == shipped.dashboard(path)


def test_helm_test_calls_the_service(helm: str) -> None:
    """The test's pod runs the operator's image under the restricted standard, and asks the service by its name and port."""
    found = rendered(helm, port=9090, image__digest="sha256:" + "0" * 64)
    pod, service = found["Pod", "binshift-operator-test"], found["Service", "binshift-operator"]
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["image"] == operator_pod(found)["spec"]["containers"][0]["image"]
    assert (
        container["args"][-1]
        == f"http://{service['metadata']['name']}.{SYSTEM}.svc:{service['spec']['ports'][0]['port']}"
    )
    assert not selects(service["spec"]["selector"], pod["metadata"]["labels"])
    for spec in (pod["spec"], operator_pod(found)["spec"]):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def notes(helm: str, folder: Path, *options: str) -> str:
    """The notes after an installation; ``helm template`` leaves them out, so another template includes them."""
    chart = shutil.copytree(shipped.CHART, folder / "binshift", dirs_exist_ok=True)
    template = 'notes: {{ include "binshift/templates/NOTES.txt" . | toJson }}\n'
    (chart / "templates" / "memo.yaml").write_text(template, encoding="utf-8")
    done = run(helm, "--show-only", "templates/memo.yaml", *options, chart=chart)
    assert done.returncode == 0, done.stderr
    text: str = yaml.safe_load(done.stdout)["notes"]
    return text


def test_notes_have_the_next_steps(helm: str, tmp_path: Path) -> None:
    """The notes after an installation have the test command, the state of monitoring, and the upgrade of the definition."""
    plain, monitored = notes(helm, tmp_path), notes(helm, tmp_path, *MONITORED)
    for printed in (plain, monitored):
        assert f"helm test binshift --namespace {SYSTEM}" in printed
        assert "kubectl apply --server-side --force-conflicts" in printed
        assert "all namespaces" in printed
    assert "monitoring.podMonitors.enabled" in plain
    assert "if your Prometheus selects PodMonitors by labels, set monitoring.labels." in monitored


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ('monitoring.podMonitors.enabled="maybe"', "enabled"),
        ('monitoring.podMonitors.interval="soon"', "interval"),
        ('monitoring.rules.alerts={"BinshiftDriverDown": {"severity": "info"}}', "severity"),
        ('monitoring.dashboards.labels={"grafana_dashboard": 1}', "grafana_dashboard"),
        ("monitoring.grafana=true", "grafana"),
    ],
)
def test_values_that_do_not_fit_are_refused(helm: str, value: str, place: str) -> None:
    """A value that means nothing is refused by the schema, with its place."""
    done = run(helm, "--set-json", value)
    assert done.returncode != 0
    assert place in done.stderr


def test_chart_is_well_formed(helm: str) -> None:
    """helm's own check finds nothing, with and without what is for Prometheus."""
    for options in ([], ["--set", "monitoring.podMonitors.enabled=true,monitoring.rules.enabled=true"]):
        done = subprocess.run(
            [helm, "lint", "--strict", str(shipped.CHART), *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
