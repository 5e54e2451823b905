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
    Case("two standby copies", {"spec.standbyReplicas": 2}, "standbyReplicas", schema=True),
    Case("a duration that is too long", {"spec.migration": {"timeout": "200h"}}, "1s to 168h"),
)
"""Refused when a dataflow is created."""

ENCRYPTION: Final = (
    Case("encryption without a certificate", {"spec.encryption": {}}, "secretName", schema=True),
    Case(
        "encryption by a Secret that cannot be", {"spec.encryption": {"secretName": "A b"}}, "secretName", schema=True
    ),
    Case(
        "encryption",
        {"spec.encryption": {"secretName": "clicks-tls"}, "spec.sparkConf": {"spark.ui.retainedJobs": "9"}},
    ),
    Case(
        "encryption by a weaker cipher",
        {
            "spec.encryption": {"secretName": "a"},
            "spec.sparkConf": {"spark.network.crypto.cipher": "AES/CTR/NoPadding"},
        },
        "encryption sets these keys",
    ),
    Case("Spark's own encryption alone", {"spec.sparkConf": {"spark.network.crypto.enabled": "true"}}),
    Case("a port of Spark's UI", {"spec.sparkConf": {"spark.ui.port": "80"}}, "this key is set by"),
)
"""Likewise; some are accepted."""

MIGRATED: Final = {
    "strategy": "Batched",
    "batchSize": 8,
    "preCopy": False,
    "latencyTarget": "500ms",
    "timeout": "1h30m",
    "onTimeout": "Rollback",
}
"""Every field of a policy for migrations."""

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

SCHEDULE: Final = {"every": "1h30m", "keep": 24, "location": "s3://backups/clicks"}
"""Every field of a schedule of snapshots."""

SNAPSHOTS: Final = (
    Case("snapshots on the claim", {"spec.snapshots": {**SCHEDULE, "location": "/checkpoint/backups"}}),
    Case("snapshots without a number to keep", {"spec.snapshots": {"every": "1h"}}, "keep", schema=True),
    Case("snapshots of which none is kept", {"spec.snapshots": {**SCHEDULE, "keep": 0}}, "keep", schema=True),
    Case("snapshots every second", {"spec.snapshots": {**SCHEDULE, "every": "1s"}}, "1m to 720h"),
    Case(
        "snapshots in a local folder", {"spec.snapshots": {**SCHEDULE, "location": "backups"}}, "location", schema=True
    ),
    Case("snapshots above a folder", {"spec.snapshots": {**SCHEDULE, "location": "/a/../b"}}, "location", schema=True),
    Case("a checkpoint that begins with a location", {"spec.checkpoint.restoreFrom": {"location": "/checkpoint/a/b"}}),
    Case("a checkpoint that begins with a snapshot", {"spec.checkpoint.restoreFrom": {"snapshot": "clicks-1"}}),
    Case("a checkpoint that begins with nothing", {"spec.checkpoint.restoreFrom": {}}, "exactly one of restoreFrom"),
    Case(
        "a checkpoint that begins twice",
        {"spec.checkpoint.restoreFrom": {"snapshot": "a", "location": "/b"}},
        "exactly one of restoreFrom",
    ),
    Case(
        "a bucket to begin with", {"spec.checkpoint.restoreFrom": {"location": "s3://bucket"}}, "location", schema=True
    ),
    Case("a beginning in Spark conf", {"spec.sparkConf": {"spark.binshift.restoreFrom": "/a"}}, "this key is set by"),
    Case("a dotted snapshot", {"spec.checkpoint.restoreFrom": {"snapshot": "a.b"}}, "snapshot", schema=True),
)
"""Likewise; some are accepted."""
