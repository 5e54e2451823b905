"""A StreamingDataflow as read from the API server: frozen, typed, with its restart class as one hash.

An edit is *live* (replicas, autoscaling, maxEpoch, migration, rebalance, suspend, snapshots) or a *restart*: then the hash of everything else that the
user wrote changes, also with a new `restartNonce`. Values that equal the defaults count as not written. A new field has no default in the CRD: an older
operator would take that default for an edit, and restart everything. Rendered values are never hashed, so a newer operator restarts
nothing either. The CRD validates; what it cannot express is detected here and raised as a `ValueError`. Such a dataflow is
`parse_invalid`: it can be observed, but not acted upon.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from binshift_operator.model.autoscaling import Autoscaling, parse_autoscaling
from binshift_operator.model.driver_settings import DEFAULT_SETTINGS, DriverSettings, parse_settings, without_settings
from binshift_operator.model.names import ANNOTATION_PAUSED, DataflowKey
from binshift_operator.model.quantities import seconds_of
from binshift_operator.model.snapshot_spec import RestoreFrom, SnapshotSchedule, parse_restore_from, parse_schedule

LIVE: Final = frozenset(
    {"replicas", "autoscaling", "maxEpoch", "migration", "rebalance", "suspend", "maxSurge", "snapshots", "restoreFrom"}
)
"""Fields of the spec, at any depth, whose edits need no restart; that of the last one is the start with an empty checkpoint."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "imagePullPolicy": "IfNotPresent",
    "bins": 4096,
    "restartNonce": 0,
    "driver": {
        "resources": {"requests": {"cpu": "500m", "memory": "1536Mi"}, "limits": {"memory": "1536Mi"}},
        "masterResources": {"requests": {"cpu": "50m", "memory": "384Mi"}, "limits": {"memory": "512Mi"}},
        "sparkUI": False,
        "standby": False,
    },
    "executor": {"resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}},
}
"""Defaults of the restart class, as the CRD has those of its first fields; a test compares."""

WHOLE: Final = frozenset(
    {
        *("resources", "masterResources", "labels", "annotations", "nodeSelector", "affinity", "sparkConf"),
        *("volumeClaimTemplate", "securityContext", "template"),
    }
)
"""Fields whose content is the user's: an empty text is significant there, as in ``nodeSelector: {gpu: ""}``."""


SECRET_CHANGE: Final = "SecretChange"


class OnTimeout(StrEnum):
    """What happens to a migration that times out."""

    KEEP = "Keep"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """How bins move; durations in seconds. Without a latency target, moves are paced by the latency of calm epochs."""

    strategy: str = "Optimized"
    batch_size: int = 256
    pre_copy: bool = True
    latency_target_seconds: float | None = None
    timeout_seconds: float = 1800.0
    on_timeout: OnTimeout = OnTimeout.KEEP


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The place of the state: a location in an object store, or a claim and a path on it."""

    location: str | None = None
    credentials_secret: str | None = None
    claim: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The spec of one dataflow.

    Attributes:
        key: its identity.
        generation: of the spec.
        deleting: whether it is being deleted; ``paused``: whether the operator must not change anything.
        replicas: requested executors; with `Autoscaling` the current number may be another one.
        autoscaling: whether and how the number follows the load; None: Off.
        suspend: whether the stream is to be suspended.
        migration: how bins move; ``settings``: of the running driver.
        checkpoint: where the state is; ``restore_from``: what it begins with, until it is known not to be empty.
        snapshots: the periodic ones; None: there are none.
        restart_hash: of the restart class of what the user wrote.
        raw: the whole spec, for rendering.
        parse_error: why the spec cannot be parsed; empty if it can. If not, only key, generation, deleting, paused and suspend are valid.
        service_account: of the pods, created by the user; None: one that is created for this dataflow.
        secrets_hash: of the referenced Secrets, if it restarts when they change; else empty.
    """

    key: DataflowKey
    generation: int
    deleting: bool
    suspend: bool
    replicas: int = 0
    autoscaling: Autoscaling | None = None
    migration: MigrationPolicy = MigrationPolicy()
    settings: DriverSettings = DEFAULT_SETTINGS
    checkpoint: Checkpoint = Checkpoint()
    restore_from: RestoreFrom | None = None
    snapshots: SnapshotSchedule | None = None
    restart_hash: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    parse_error: str = ""
    service_account: str | None = None
    secrets_hash: str = ""
    paused: bool = False

    @property
    def pod_hash(self) -> str:
        """The hash that pods are created for: another one restarts the dataflow."""
        return f"{self.restart_hash}-{self.secrets_hash}" if self.secrets_hash else self.restart_hash

    def section(self, *path: str) -> Mapping[str, Any]:
        """A section of the spec; empty if it is missing."""
        found = self.raw
        for name in path:
            found = found.get(name) or {}
        return found

    @property
    def restarts_on_secret_change(self) -> bool:
        """Whether it restarts when a referenced Secret changes."""
        return self.raw.get("restartOn") == SECRET_CHANGE

    @property
    def tls_secret(self) -> str | None:
        """The Secret with the driver's certificate; None if its traffic is not encrypted."""
        return self.section("encryption").get("secretName")


def read(manifest: Mapping[str, Any]) -> Dataflow:
    """As `parse`; what cannot be parsed is `parse_invalid`, with the error."""
    try:
        return parse(manifest)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Only here is such an error the user's; anywhere else it is the operator's own.
        why = f"the spec lacks {error}" if isinstance(error, KeyError) else str(error)
        return parse_invalid(manifest, why)


def parse(manifest: Mapping[str, Any]) -> Dataflow:
    """The dataflow in an object of the API server.

    Raises:
        ValueError: the spec is invalid; the CRD rejects such a spec, unless the object is older than the rule.
    """
    meta, spec = manifest["metadata"], manifest.get("spec") or {}
    kept = spec.get("checkpoint") or {}
    replicas = int(spec.get("replicas", 1))
    if replicas < 1:
        raise ValueError(f"replicas is {replicas}; it must be at least 1; to stop the dataflow, set suspend: true")
    if not spec.get("image") or not (spec.get("application") or {}).get("mainFile"):
        raise ValueError("image and application.mainFile are required: they name the program")
    if bool(kept.get("location")) == bool(kept.get("claimName")):
        raise ValueError("checkpoint needs exactly one of location and claimName")
    name = meta["name"]
    path = (kept.get("path") or name) if kept.get("claimName") else None
    migration = _migration(spec.get("migration") or {})
    return Dataflow(
        key=DataflowKey(meta["namespace"], name, meta["uid"]),
        generation=int(meta["generation"]),
        deleting="deletionTimestamp" in meta,
        replicas=replicas,
        suspend=bool(spec.get("suspend", False)),
        autoscaling=parse_autoscaling(spec.get("autoscaling") or {}, migration.latency_target_seconds),
        migration=migration,
        settings=parse_settings(spec),
        checkpoint=Checkpoint(kept.get("location"), kept.get("credentialsSecret"), kept.get("claimName"), path),
        restore_from=parse_restore_from(kept.get("restoreFrom")),
        snapshots=parse_schedule(spec.get("snapshots")),
        restart_hash=restart_hash(spec),
        raw=spec,
        service_account=spec.get("serviceAccountName") or None,
        paused=_is_paused(meta),
    )


def parse_invalid(manifest: Mapping[str, Any], why: str) -> Dataflow:
    """The dataflow in an object that `parse` rejected: as much of it as its observation requires."""
    meta, spec = manifest["metadata"], manifest.get("spec")
    return Dataflow(
        key=DataflowKey(meta["namespace"], meta["name"], meta["uid"]),
        generation=int(meta["generation"]),
        deleting="deletionTimestamp" in meta,
        suspend=isinstance(spec, Mapping) and spec.get("suspend") is True,
        parse_error=why or "it cannot be parsed",
        paused=_is_paused(meta),
    )


def _is_paused(meta: Mapping[str, Any]) -> bool:
    return (meta.get("annotations") or {}).get(ANNOTATION_PAUSED) == "true"


def _migration(given: Mapping[str, Any]) -> MigrationPolicy:
    usual = MigrationPolicy()
    return MigrationPolicy(
        strategy=given.get("strategy", usual.strategy),
        batch_size=int(given.get("batchSize", usual.batch_size)),
        pre_copy=bool(given.get("preCopy", usual.pre_copy)),
        latency_target_seconds=seconds_of(given, "latencyTarget", 0.0) or None,
        timeout_seconds=seconds_of(given, "timeout", usual.timeout_seconds),
        on_timeout=OnTimeout(given.get("onTimeout", usual.on_timeout)),
    )


def restart_hash(spec: Mapping[str, Any]) -> str:
    """A short hash of those fields that the user wrote and that require a restart when they change.

    >>> written = {"image": "a", "replicas": 2}
    >>> restart_hash(written) == restart_hash({"image": "a", "replicas": 9, "restartNonce": 0, "driver": {"pod": {}}})
    True
    >>> restart_hash(written) == restart_hash(written | {"restartNonce": 1})
    False
    """
    return hashlib.sha256(json.dumps(_written(without_settings(spec), DEFAULTS), sort_keys=True).encode()).hexdigest()[
        :16
    ]


def _written(value: Any, default: Any) -> Any:
    """What differs from the defaults; empty values count as not written. What has a default as a whole is kept as a whole."""
    if value == default or value in ("", [], {}, None):
        return None
    if not isinstance(value, Mapping):
        return value
    known = default if isinstance(default, Mapping) else {}
    parts = {
        key: each if key in WHOLE and each and each != known.get(key) else _written(each, known.get(key))
        for key, each in value.items()
        if key not in LIVE
    }
    return {key: each for key, each in parts.items() if each is not None} or None
