"""One case of what the CRD accepts and refuses, and those of durations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Case:
    """One object.

    Attributes:
        name: what it is about.
        changes: of `BASE`, by the field's path with dots.
        refused: part of the API server's message; empty if it must accept.
        before: for an edit, the changes of the object that is edited.
        schema: whether the JSON schema alone refuses it; otherwise it takes CEL.
    """

    name: str
    changes: dict[str, Any]
    refused: str = ""
    before: dict[str, Any] = field(default_factory=dict)
    schema: bool = False


DURATIONS: Final = (
    Case("a duration without a unit", {"spec.migration": {"timeout": "30"}}, "timeout", schema=True),
    Case("a duration that is too short", {"spec.migration": {"latencyTarget": "1ms"}}, "10ms to 24h"),
    Case("an epoch that is too short", {"spec.maxEpoch": "1ms"}, "50ms to 24h"),
    Case("a duration that is too long", {"spec.migration": {"timeout": "200h"}}, "1s to 168h"),
)
"""Refused when a dataflow is created."""

AUTOSCALED: Final = {
    "mode": "Auto",
    "minReplicas": 2,
    "maxReplicas": 8,
    "latencyTarget": "2s",
    "utilization": 60,
    "catchUp": "1m",
    "scaleDown": {"stabilization": "0s", "maxPercent": 25},
}
"""Every field of autoscaling."""

AUTOSCALING: Final = (
    Case("autoscaling without a range", {"spec.autoscaling": {"mode": "Auto"}}, "needs maxReplicas"),
    Case("autoscaling that is off", {"spec.autoscaling": {"mode": "Off"}}),
    Case("an unknown mode of autoscaling", {"spec.autoscaling": {"mode": "On"}}, "mode", schema=True),
    Case("an empty range", {"spec.autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "at most maxReplicas"),
    Case("more executors than bins", {"spec.bins": 4, "spec.autoscaling": {"maxReplicas": 5}}, "at most bins"),
    Case("too little utilization", {"spec.autoscaling": {"utilization": 0}}, "utilization", schema=True),
    Case("a backlog that is worked off at once", {"spec.autoscaling": {"catchUp": "0s"}}, "1s to 24h"),
    Case(
        "stopping no executors",
        {"spec.autoscaling": {"scaleDown": {"maxPercent": 0}}},
        "maxPercent",
        schema=True,
    ),
)
"""Likewise; one of them is accepted."""
