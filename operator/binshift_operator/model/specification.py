"""A StreamingDataflow as read from the API server: frozen, typed, and with its restart class as one hash.

An edit is *live* (replicas, migration, rebalance, suspend) or a *restart*: then the hash over everything else that the user wrote
changes, and so it does for a new `restartNonce`. Values that equal the defaults count as not written. A field that is added has none
in the CRD: an older operator knows of no such default, would take it for an edit, and restart everything. What was rendered from the spec is never hashed, so a newer operator restarts
nothing either. Validation is the CRD's; what it cannot express is found here, and told as a `ValueError`. Such a dataflow is
`parse_invalid`: it can be looked at, and that is all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from binshift_operator.model.names import DataflowKey
from binshift_operator.model.quantities import duration

LIVE: Final = frozenset({"replicas", "migration", "rebalance", "suspend"})
"""Fields of the spec whose edits need no restart."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "imagePullPolicy": "IfNotPresent",
    "bins": 4096,
    "restartNonce": 0,
    "driver": {
        "resources": {"requests": {"cpu": "500m", "memory": "1536Mi"}, "limits": {"memory": "1536Mi"}},
        "masterResources": {"requests": {"cpu": "50m", "memory": "384Mi"}, "limits": {"memory": "512Mi"}},
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
"""Fields whose insides are the user's own words: there an empty text says something, as in ``nodeSelector: {gpu: ""}``."""


SECRET_CHANGE: Final = "SecretChange"


class OnTimeout(StrEnum):
    """What becomes of a migration that takes too long."""

    KEEP = "Keep"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """How bins move; durations in seconds."""

    strategy: str = "Optimized"
    batch_size: int = 256
    pre_copy: bool = True
    latency_target_seconds: float = 1.0
    timeout_seconds: float = 1800.0
    on_timeout: OnTimeout = OnTimeout.KEEP


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the state is kept: a location in an object store, or a claim and a path on it."""

    location: str | None
    credentials_secret: str | None
    claim: str | None
    path: str | None


@dataclass(frozen=True, slots=True)
class Dataflow:
    """What the user wants of one dataflow.

    Attributes:
        key: which one.
        generation: of the spec.
        deleting: whether it is on its way out, and nothing is to be done for it.
        replicas: executors wanted.
        suspend: whether the stream shall rest.
        migration: how bins move.
        checkpoint: where the state is.
        restart_hash: of the restart class of what the user wrote.
        raw: the whole spec, for rendering.
        service_account: of the pods, made by the user; None: one that is made for this dataflow.
        inputs_hash: of the Secrets that it names, where it is to be restarted when they change; else empty.
        parse_error: why the spec cannot be parsed; empty if it can. If not, key, generation, deleting and suspend are all that is known.
    """

    key: DataflowKey
    generation: int
    deleting: bool
    replicas: int
    suspend: bool
    migration: MigrationPolicy
    checkpoint: Checkpoint
    restart_hash: str
    raw: Mapping[str, Any]
    parse_error: str = ""
    service_account: str | None = None
    secrets_hash: str = ""

    @property
    def pod_hash(self) -> str:
        """What pods are made for: another one restarts the dataflow."""
        return f"{self.restart_hash}-{self.secrets_hash}" if self.secrets_hash else self.restart_hash

    @property
    def restarts_on_secret_change(self) -> bool:
        """Whether it is to be restarted when a Secret changes that it names."""
        return self.raw.get("restartOn") == SECRET_CHANGE


def parse(manifest: Mapping[str, Any]) -> Dataflow:
    """The dataflow in an object of the API server.

    Raises:
        ValueError: something does not fit that the CRD should have refused, such as an object made before its rules.
    """
    meta, spec = manifest["metadata"], manifest.get("spec") or {}
    kept = spec.get("checkpoint") or {}
    replicas = int(spec.get("replicas", 1))
    if replicas < 1:
        raise ValueError(f"replicas is {replicas}; it must be at least 1; to stop the dataflow, set suspend: true")
    if not spec.get("image") or not (spec.get("application") or {}).get("mainFile"):
        raise ValueError("image and application.mainFile are needed: the program has to be somewhere")
    if bool(kept.get("location")) == bool(kept.get("claimName")):
        raise ValueError("checkpoint needs exactly one of location and claimName")
    name = meta["name"]
    path = (kept.get("path") or name) if kept.get("claimName") else None
    return Dataflow(
        key=DataflowKey(meta["namespace"], name, meta["uid"]),
        generation=int(meta["generation"]),
        deleting="deletionTimestamp" in meta,
        replicas=replicas,
        suspend=bool(spec.get("suspend", False)),
        migration=_migration(spec.get("migration") or {}),
        checkpoint=Checkpoint(kept.get("location"), kept.get("credentialsSecret"), kept.get("claimName"), path),
        restart_hash=restart_hash(spec),
        raw=spec,
        service_account=spec.get("serviceAccountName") or None,
    )


def parse_invalid(manifest: Mapping[str, Any], why: str) -> Dataflow:
    """The dataflow in an object that `parse` refused: as much of it as looking at it takes. Nothing may be done by it."""
    meta, spec = manifest["metadata"], manifest.get("spec")
    return Dataflow(
        key=DataflowKey(meta["namespace"], meta["name"], meta["uid"]),
        generation=int(meta["generation"]),
        deleting="deletionTimestamp" in meta,
        replicas=0,
        suspend=isinstance(spec, Mapping) and spec.get("suspend") is True,
        migration=MigrationPolicy(),
        checkpoint=Checkpoint(None, None, None, None),
        restart_hash="",
        raw={},
        parse_error=why or "it cannot be parsed",
    )


def _migration(given: Mapping[str, Any]) -> MigrationPolicy:
    usual = MigrationPolicy()
    return MigrationPolicy(
        strategy=given.get("strategy", usual.strategy),
        batch_size=int(given.get("batchSize", usual.batch_size)),
        pre_copy=bool(given.get("preCopy", usual.pre_copy)),
        latency_target_seconds=_seconds(given, "latencyTarget", usual.latency_target_seconds),
        timeout_seconds=_seconds(given, "timeout", usual.timeout_seconds),
        on_timeout=OnTimeout(given.get("onTimeout", usual.on_timeout)),
    )


def _seconds(given: Mapping[str, Any], name: str, usual: float) -> float:
    return duration(given[name]) if name in given else usual


def restart_hash(spec: Mapping[str, Any]) -> str:
    """A short hash of what the user wrote that needs a restart when it changes.

    >>> written = {"image": "a", "replicas": 2}
    >>> restart_hash(written) == restart_hash({"image": "a", "replicas": 9, "restartNonce": 0, "driver": {"pod": {}}})
    True
    >>> restart_hash(written) == restart_hash(written | {"restartNonce": 1})
    False
    """
    written = _written({key: value for key, value in spec.items() if key not in LIVE}, DEFAULTS)
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:16]


def _written(value: Any, default: Any) -> Any:
    """What differs from the defaults; empty things are as good as none. What has a default as a whole is kept as a whole."""
    if value == default or value in ("", [], {}, None):
        return None
    if not isinstance(value, Mapping):
        return value
    known = default if isinstance(default, Mapping) else {}
    parts = {
        key: each if key in WHOLE and each and each != known.get(key) else _written(each, known.get(key))
        for key, each in value.items()
    }
    return {key: each for key, each in parts.items() if each is not None} or None
