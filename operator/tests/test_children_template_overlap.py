"""A user's template next to the other fields of the spec: what both set is rejected or taken from one, never dropped or mixed."""

from __future__ import annotations

from typing import Any

import pytest
from test_children_rendering import pods


@pytest.mark.parametrize(
    ("part", "spec", "why"),
    [
        ({}, {"serviceAccountName": "admin"}, "belongs in spec.serviceAccountName"),
        ({}, {"serviceAccount": "admin"}, "belongs in spec.serviceAccountName"),
        ({"drainTimeout": "10m"}, {"terminationGracePeriodSeconds": 300}, "follows from executor.drainTimeout"),
        ({"pod": {"tolerations": [{"key": "a"}]}}, {"tolerations": [{"key": "b"}]}, "executor.pod.tolerations names"),
        ({"pod": {"priorityClassName": "a"}}, {"priorityClassName": "b"}, "executor.pod.priorityClassName names"),
    ],
)
def test_template_fields_that_the_spec_overrides(part: dict[str, Any], spec: dict[str, Any], why: str) -> None:
    """A field for which the spec has a field of its own is rejected by name, and not dropped; equal values are accepted."""
    pod = {**part.get("pod", {}), "template": {"spec": spec}}
    with pytest.raises(ValueError, match=f"executor.pod.template names .*{why}"):
        pods({"spec.executor": {**part, "pod": pod}})
    same = {"tolerations": [{"key": "a"}], "priorityClassName": "a"}
    again = {"terminationGracePeriodSeconds": 620, **same, "serviceAccountName": "clicks"}
    pods({"spec.executor": {"drainTimeout": "10m", "pod": {**same, "template": {"spec": again}}}})


def test_an_item_is_one_sides_as_a_whole() -> None:
    """What can have one source or one way only keeps binshift's, or the spec's: the API server refuses one with two."""
    mine, from_field = [{"name": "A", "value": "1"}], {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    worker = {
        "name": "worker",
        "env": [{"name": "A", **from_field}, {"name": "B", **from_field}],
        "livenessProbe": {"exec": {"command": ["true"]}},
        "ports": [{"name": "worker", "hostIP": "127.0.0.1"}],
        "volumeMounts": [{"mountPath": "/tmp", "subPathExpr": "x"}],
    }
    plain = pods({"spec.executor": {"pod": {"env": mine}}})[1]["spec"]["containers"][0]
    settings = {"env": mine, "template": {"spec": {"containers": [worker]}}}
    found = pods({"spec.executor": {"pod": settings}})[1]["spec"]["containers"][0]
    assert found["env"] == [*plain["env"], {"name": "B", **from_field}]
    for name in ("livenessProbe", "ports", "volumeMounts"):
        assert found[name] == plain[name]
