"""The chart: its values are those the operator knows, and what Helm makes of it (where there is a Helm) is what was meant."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jsonschema
import pytest
import yaml
from test_crd import ROOT

from binshift_operator.configuration import Configuration
from binshift_operator.model.situation import Timeouts

CHART = ROOT / "charts" / "binshift"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
LIMITS = VALUES["operator"]["limits"]
HELM_SECONDS_MAX = 60
KUBE = "1.29.0"
"""What to render for: a Helm that was built from source may think of a very old server."""

Rendered = Callable[..., dict[str, dict[str, Any]]]
"""Takes values by their paths, gives manifests by kind."""


def template(name: str) -> str:
    """A template as it is written."""
    return (CHART / "templates" / f"{name}.yaml").read_text(encoding="utf-8")


def snake(name: str) -> str:
    """The operator's spelling of a value's name."""
    return re.sub(r"(?=[A-Z])", "_", name).lower()


@pytest.fixture
def rendered() -> Rendered:
    """Helm, which is not on every machine."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm")

    def render(**values: Any) -> dict[str, dict[str, Any]]:
        given = [word for path, value in values.items() for word in ("--set", f"{path.replace('__', '.')}={value}")]
        command = [helm, "template", "binshift", str(CHART), "--namespace", "system", "--kube-version", KUBE, *given]
        made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HELM_SECONDS_MAX).stdout
        return {each["kind"]: each for each in yaml.safe_load_all(made) if each}

    return render


def test_values_fit_their_schema() -> None:
    """The chart's own values are valid, and each has its place in the schema."""
    jsonschema.validate(VALUES, SCHEMA, cls=jsonschema.Draft7Validator)
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)
    limits = SCHEMA["properties"]["operator"]["properties"]["limits"]["properties"]
    assert list(limits) == list(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    """A limit that would end every wait before it begins is no value."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"operator": {"limits": {name: 0}}}, SCHEMA, cls=jsonschema.Draft7Validator)


def test_limits_are_the_operators() -> None:
    """Each limit has the operator's name and default: who installs the chart gets what the operator would do by itself."""
    usual = asdict(Timeouts())
    assert {snake(name): float(value) for name, value in LIMITS.items()}.items() <= usual.items()


def test_limits_reach_the_operator() -> None:
    """Each limit is a variable of the deployment, by which the operator takes it."""
    block = template("deployment").partition("{{- with .Values.operator.limits }}")[2].partition("{{- end }}")[0]
    given = dict(re.findall(r"\{name: (BINSHIFT_\w+), value: \{\{ \.(\w+) \| quote \}\}\}", block))
    assert sorted(given.values()) == sorted(LIMITS)
    environment = {variable: str(2 * LIMITS[name]) for variable, name in given.items()}
    taken = asdict(Configuration.from_environment(environment).timeouts)
    assert {name: taken[snake(name)] for name in LIMITS} == {name: 2.0 * LIMITS[name] for name in LIMITS}


def test_rendered_limits(rendered: Rendered) -> None:
    """What Helm makes of the values is what the operator reads."""
    deployment = rendered(operator__limits__epochSecondsMax=77, operator__limits__podsWaitSeconds=5)["Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    limits = Configuration.from_environment(environment).timeouts
    assert (limits.epoch_seconds_max, limits.pods_wait_seconds) == (77.0, 5.0)
    assert limits.driver_start_seconds == Timeouts().driver_start_seconds


def test_network_policy_is_optional() -> None:
    """By default, the chart limits no network; an empty peer, which would allow every client, is not a valid value."""
    assert VALUES["networkPolicy"] == {"create": False, "from": []}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"networkPolicy": {"from": [{}]}}, SCHEMA, cls=jsonschema.Draft7Validator)


def test_network_policy_as_written() -> None:
    """It selects the operator's own pod with the labels of the deployment, and only restricts calls to its one port."""
    text = template("networkpolicy")
    assert text.startswith("{{- if .Values.networkPolicy.create }}")
    selector = 'matchLabels: {{- include "binshift.selector" . | nindent 6 }}'
    assert selector in text
    assert selector in template("deployment")
    policy = yaml.safe_load(re.sub(r"\{\{- .*|\{\{ [.\w]*\.(\w+) \}\}", r"\1", text))
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": "port"}]


def test_rendered_network_policy(rendered: Rendered) -> None:
    """Disabled, there is none; enabled, it selects the operator's pod and opens its one port, to every client or to the named ones."""
    assert "NetworkPolicy" not in rendered()
    made = rendered(networkPolicy__create="true", port=9090)
    policy, deployment = made["NetworkPolicy"], made["Deployment"]
    pod = deployment["spec"]["template"]
    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9090}]}]
    assert [each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]] == [9090]
    peer = "networkPolicy.from[0].namespaceSelector.matchLabels.team"
    (rule,) = rendered(networkPolicy__create="true", **{peer: "watch"})["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"team": "watch"}}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]
