"""A template of the user's beside the other fields of the spec: what is said twice is refused or one side's, never dropped or mixed."""

from __future__ import annotations

from typing import Any

import pytest
from test_children import pods


@pytest.mark.parametrize(
    ("part", "spec", "why"),
    [
        ({}, {"serviceAccountName": "admin"}, "spec.serviceAccountName is there for it"),
        ({}, {"serviceAccount": "admin"}, "spec.serviceAccountName is there for it"),
        ({"drainTimeout": "10m"}, {"terminationGracePeriodSeconds": 300}, "follows from executor.drainTimeout"),
        ({"pod": {"tolerations": [{"key": "a"}]}}, {"tolerations": [{"key": "b"}]}, "executor.pod.tolerations names"),
        ({"pod": {"priorityClassName": "a"}}, {"priorityClassName": "b"}, "executor.pod.priorityClassName names"),
    ],
)
def test_what_a_template_says_to_no_avail(part: dict[str, Any], spec: dict[str, Any], why: str) -> None:
    """What another field of the spec overrules is refused by name, and not dropped; the same said twice is fine."""
    pod = {**part.get("pod", {}), "template": {"spec": spec}}
    with pytest.raises(ValueError, match=f"executor.pod.template names .*{why}"):
        pods({"spec.executor": {**part, "pod": pod}})
    same = {"tolerations": [{"key": "a"}], "priorityClassName": "a"}
    again = {"terminationGracePeriodSeconds": 620, **same, "serviceAccountName": "clicks"}
    pods({"spec.executor": {"drainTimeout": "10m", "pod": {**same, "template": {"spec": again}}}})
