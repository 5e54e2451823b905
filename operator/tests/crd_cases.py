"""Valid and invalid StreamingDataflows, and edits of them: a table for tests with an API server.

`CREATED` are objects that are applied as they are, `EDITED` are edits of a valid one. ``refused`` is part of what the API server
must contain, empty if it must accept. The JSON schema part of it is checked without a server in `test_crd.py`.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from crd_case import AUTOSCALED, AUTOSCALING, DURATIONS, ENCRYPTION, MIGRATED, SCHEDULE, SNAPSHOTS, Case

BASE: Final[dict[str, Any]] = {
    "apiVersion": "binshift.dev/v1alpha1",
    "kind": "StreamingDataflow",
    "metadata": {"name": "clicks"},
    "spec": {
        "image": "example/clicks:1",
        "application": {"mainFile": "/app/clicks.py"},
        "checkpoint": {"claimName": "clicks"},
    },
}
"""The least that is valid."""

GONE: Final = object()  # instead of a value: the field is left out


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """`BASE` with these changes."""
    made = copy.deepcopy(BASE)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is GONE:
            place.pop(last, None)
        else:
            place[last] = value
    return made


S3 = {"spec.checkpoint": {"location": "s3://bucket/clicks"}}
FULL = {
    "spec.replicas": 4,
    "spec.bins": 1024,
    "spec.imagePullPolicy": "Never",
    "spec.imagePullSecrets": [{"name": "pull"}],
    "spec.application.args": ["--topic", "clicks"],
    "spec.application.env": [
        {"name": "LEVEL", "value": "info"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ],
    "spec.checkpoint": {
        "location": "s3://bucket/clicks",
        "credentialsSecret": "s3",
        "restoreFrom": {"location": "s3://backups/clicks/1"},
    },
    "spec.snapshots": SCHEDULE,
    "spec.migration": MIGRATED,
    "spec.encryption": {"secretName": "clicks-tls"},
    "spec.suspend": True,
    "spec.maxEpoch": "2s",
    "spec.standbyReplicas": 1,
    "spec.autoscaling": AUTOSCALED,
    "spec.rebalance.nonce": 2,
    "spec.restartNonce": 3,
    "spec.restartOn": "SecretChange",
    "spec.serviceAccountName": "streams",
    "spec.sparkConf": {"spark.sql.shuffle.partitions": "8"},
    "spec.driver": {
        "sparkUI": True,
        "standby": True,
        "resources": {"limits": {"cpu": 1, "memory": "2Gi"}},
        "masterResources": {"limits": {"memory": "1Gi"}},
        "pod": {"nodeSelector": {"zone": "a"}, "securityContext": {"runAsNonRoot": True, "fsGroup": 0}},
    },
    "spec.executor": {
        "taskSlots": 3,
        "drainTimeout": "5m",
        "resources": {"requests": {"cpu": "500m", "memory": "3Gi"}},
        "storage": {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
            }
        },
        "pod": {
            "labels": {"team": "a"},
            "tmpSizeLimit": "4Gi",
            "template": {
                "metadata": {"annotations": {"sidecar.example/inject": "true"}},
                "spec": {"runtimeClassName": "gvisor", "initContainers": [{"name": "init", "image": "busybox"}]},
            },
            "annotations": {"note": "b"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
            "env": [{"name": "LEVEL", "value": "debug"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
    },
}

CREATED: Final = [
    Case("the least there can be", {}),
    Case("every field", FULL),
    Case("an object store", S3),
    Case("an object store in Hadoop's spelling", {"spec.checkpoint": {"location": "s3a://bucket/a/b"}}),
    Case("a path on a claim", {"spec.checkpoint.path": "team/clicks"}),
    Case("one bin", {"spec.bins": 1}),
    Case("a name of forty characters", {"metadata.name": "a" * 40}),
    Case("storage with a limit", {"spec.executor": {"storage": {"sizeLimit": "5Gi"}}}),
    Case("no image", {"spec.image": GONE}, "spec.image", schema=True),
    Case("an empty image", {"spec.image": ""}, "spec.image", schema=True),
    Case("no program", {"spec.application": {}}, "mainFile", schema=True),
    Case("a program by a relative path", {"spec.application.mainFile": "clicks.py"}, "mainFile", schema=True),
    Case("no checkpoint", {"spec.checkpoint": GONE}, "spec.checkpoint", schema=True),
    Case("an empty checkpoint", {"spec.checkpoint": {}}, "exactly one of location and claimName"),
    Case(
        "two checkpoints",
        {"spec.checkpoint": {"location": "s3://bucket/a", "claimName": "a"}},
        "exactly one of location and claimName",
    ),
    Case("a checkpoint on a laptop", {"spec.checkpoint": {"location": "file:///tmp/a"}}, "location", schema=True),
    Case(
        "credentials for a claim", {"spec.checkpoint.credentialsSecret": "s3"}, "credentialsSecret belongs to location"
    ),
    Case(
        "a path next to a location", {"spec.checkpoint": {"location": "s3://bucket/a", "path": "b"}}, "path belongs to"
    ),
    Case("a path that climbs", {"spec.checkpoint.path": "../other"}, "path", schema=True),
    Case("no replicas at all", {"spec.replicas": 0}, "set suspend: true"),
    Case("negative replicas", {"spec.replicas": -1}, "set suspend: true"),
    Case("replicas as text", {"spec.replicas": "two"}, "replicas", schema=True),
    Case("more replicas than bins", {"spec.replicas": 8, "spec.bins": 4}, "replicas must not exceed bins"),
    Case("bins that are no power of two", {"spec.bins": 1000}, "power of two"),
    Case("no bins", {"spec.bins": 0}, "spec.bins", schema=True),
    Case("an unknown strategy", {"spec.migration": {"strategy": "Fast"}}, "strategy", schema=True),
    Case("a strategy in lower case", {"spec.migration": {"strategy": "fluid"}}, "strategy", schema=True),
    Case("a batch of no bins", {"spec.migration": {"batchSize": 0}}, "batchSize", schema=True),
    *DURATIONS,
    *AUTOSCALING,
    *ENCRYPTION,
    *SNAPSHOTS,
    Case("an unknown end of a time-out", {"spec.migration": {"onTimeout": "Panic"}}, "onTimeout", schema=True),
    Case("a name of 41 characters", {"metadata.name": "a" * 41}, "at most 40 characters"),
    Case("a name with a dot", {"metadata.name": "a.b"}, "begin with a letter and have no dots"),
    Case("a name that begins with a digit", {"metadata.name": "1a"}, "begin with a letter"),
    Case("one task slot", {"spec.executor": {"taskSlots": 1}}, "taskSlots", schema=True),
    Case("no memory", {"spec.executor": {"resources": {"requests": {"cpu": 1}}}}, "limits.memory"),
    Case("no quantity", {"spec.driver": {"resources": {"limits": {"memory": "lots"}}}}, "memory", schema=True),
    Case(
        "a limit and a claim",
        {"spec.executor": {"storage": {"sizeLimit": "1Gi", "volumeClaimTemplate": {"spec": {}}}}},
        "sizeLimit belongs to the emptyDir",
    ),
    Case("Spark conf of binshift's", {"spec.sparkConf": {"spark.master": "local"}}, "this key is set by binshift"),
    Case("Spark conf that is no text", {"spec.sparkConf": {"spark.a": 1}}, "sparkConf", schema=True),
    Case(
        "a variable of binshift's",
        {"spec.application.env": [{"name": "BINSHIFT_TOKEN", "value": "x"}]},
        "set by binshift itself",
    ),
    Case(
        "a variable with two values",
        {
            "spec.application.env": [
                {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            ]
        },
        "exclude each other",
    ),
    Case(
        "a variable twice",
        {"spec.application.env": [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]},
        "Duplicate value",
    ),
    Case(
        "a volume of binshift's name",
        {"spec.driver": {"pod": {"volumes": [{"name": "binshift-tmp", "emptyDir": {}}]}}},
        "names that begin with binshift- are taken",
    ),
    *(
        Case(
            f"the checkpoint's claim among the volumes of a {part}",
            {f"spec.{part}": {"pod": {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "clicks"}}]}}},
            "mounted at /checkpoint already",
        )
        for part in ("driver", "executor")
    ),
    *(
        Case(
            f"the node's files among the volumes of a {part}",
            {f"spec.{part}": {"pod": {"volumes": [{"name": "x", "hostPath": source}]}}},
            "hostPath is refused",
        )
        for part, source in (("driver", {"path": "/"}), ("executor", {}))
    ),
    Case("a drain of no time", {"spec.executor": {"drainTimeout": "0s"}}, "drainTimeout must be 1s to 24h"),
    *(
        Case(f"a {part} as root", {f"spec.{part}": {"pod": {"securityContext": context}}}, refused, schema=schema)
        for part in ("driver", "executor")
        for context, refused, schema in (
            ({"runAsNonRoot": False}, "runAsNonRoot must be true", False),
            ({"runAsUser": 0}, "runAsUser", True),
            ({}, "securityContext", True),
        )
    ),
    Case("a master without memory", {"spec.driver": {"masterResources": {"limits": {"cpu": 1}}}}, "limits.memory"),
    Case("an unknown reason to restart", {"spec.restartOn": "Always"}, "restartOn", schema=True),
    *(
        Case(f"{key}, which binshift sets", {"spec.sparkConf": {key: "1"}}, "this key is set by binshift")
        for key in ("spark.locality.wait", "spark.executorEnv.PYTHONPATH", "spark.port.maxRetries")
    ),
    *(
        Case(f"a negative {path}", {f"spec.{path}": -1}, path, schema=True)
        for path in ("restartNonce", "rebalance.nonce", "executor.restartNonce", "executor.maxSurge")
    ),
]
"""Objects that are applied as they are."""

EDITED: Final = [
    Case("more replicas", {"spec.replicas": 5}),
    Case("another image", {"spec.image": "example/clicks:2"}),
    Case("another strategy", {"spec.migration": {"strategy": "Fluid"}}),
    Case("another beginning", {"spec.checkpoint.restoreFrom": {"snapshot": "a"}}),
    Case("other credentials", S3 | {"spec.checkpoint.credentialsSecret": "new"}, before=S3),
    Case("the default number of bins, written out", {"spec.bins": 4096}),
    Case("other bins", {"spec.bins": 1024}, "fixed for the life of a checkpoint"),
    Case("bins left out", {}, "fixed for the life of a checkpoint", before={"spec.bins": 1024}),
    Case("another claim", {"spec.checkpoint.claimName": "other"}, "checkpoint.claimName is fixed"),
    Case("a location for a claim", S3, "is fixed"),
    Case(
        "another location",
        {"spec.checkpoint": {"location": "s3://bucket/b"}},
        "checkpoint.location is fixed",
        before=S3,
    ),
    Case("another path", {"spec.checkpoint.path": "b"}, "path is fixed", before={"spec.checkpoint.path": "a"}),
    Case("a path for none", {"spec.checkpoint.path": "a"}, "checkpoint.path is fixed"),
    Case("a path left out", {}, "checkpoint.path is fixed", before={"spec.checkpoint.path": "a"}),
    Case("the checkpoint left out", {"spec.checkpoint": GONE}, "spec.checkpoint"),
    Case("no replicas at all", {"spec.replicas": 0}, "set suspend: true"),
]
"""Edits: `BASE` with ``before`` becomes `BASE` with ``changes``."""
