"""Records Kubernetes Events about a dataflow or a snapshot: one object for each distinct event, with a count of its occurrences.

The object's name is a hash of the content, so an event that is recorded twice (after a crash between two writes) is counted twice and
listed once. Events only inform users: one that cannot be written is logged and dropped.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from binshift_operator.errors import Changed, OperatorError
from binshift_operator.kube import Kube, Object
from binshift_operator.model.actions import Action, Activate, Apply, DeletePod, PutSettings, Rebalance
from binshift_operator.model.messages import truncate
from binshift_operator.model.names import API_VERSION, FIELD_MANAGER, Child, DataflowKey, SnapshotKey
from binshift_operator.model.observed import ObservedState
from binshift_operator.status import EventRecord
from binshift_operator.status_codec import format_time, parse_time

log = logging.getLogger(__name__)
RECENT_SECONDS: Final = 300.0
"""Maximum age of a `kubectl rollout restart` that is reported."""


def action_events(actions: Sequence[Action], observed: ObservedState) -> Iterable[EventRecord]:
    """The events of executed actions."""
    for action in actions:
        match action:
            case Apply(Child.EXECUTORS, int(replicas)):
                before = observed.children[Child.EXECUTORS].replicas
                if replicas != before:
                    yield EventRecord("Scaled", f"executor pods: {before} to {replicas}")
            case DeletePod(name, _, why, force):
                message = f"pod {name} is deleted{' by force' if force else ''}: {why}"
                yield EventRecord("PodReplaced", message, warning=force)
            case Activate(name, _, why) if why:
                yield EventRecord("StandbyActivated", f"pod {name} is the active driver: {why}", warning=True)
            case PutSettings(settings):
                longest = settings.max_epoch_seconds
                bound = "no bound" if longest is None else f"at most {longest:g} s"
                yield EventRecord("SettingsChanged", f"epochs of the running driver: {bound}")
            case Rebalance(why):
                yield EventRecord("Rebalanced", why)


def rollout_events(key: DataflowKey, observed: ObservedState, known: dict[Child, str]) -> Iterable[EventRecord]:
    """The events about `kubectl rollout restart`, which replaces none of our pods; each is recorded once, and then ``known``.

    The request stays in the template, so an old one is skipped: an earlier process of the operator has recorded it.
    """
    for child, seen in observed.children.items():
        if seen.restarted_at and known.get(child) != seen.restarted_at and _is_recent(seen.restarted_at, observed.now):
            known[child] = seen.restarted_at
            yield EventRecord(
                "RolloutRestartIgnored",
                f"kubectl rollout restart of StatefulSet {key.child(child)} ({seen.restarted_at}) replaces no pod. To replace the "
                "executors one after the other, set spec.executor.restartNonce to another number; to restart the dataflow, "
                f"spec.restartNonce: kubectl edit sdf {key.name}",
                warning=True,
            )


def _is_recent(requested_at: str, now: float) -> bool:
    """Whether the request is recent, by a clock that may differ from the operator's."""
    try:
        return abs(now - parse_time(requested_at)) < RECENT_SECONDS
    except ValueError:
        return False


def record(kube: Kube, key: DataflowKey | SnapshotKey, records: Iterable[EventRecord], now: float) -> None:
    """Write events; never fails."""
    for each in records:
        message = "event" if each.private else each.message
        log.info("%s", message, extra={key.noun: f"{key.namespace}/{key.name}", "reason": each.reason})
        try:
            _write(kube, key, each, now)
        except OperatorError as error:
            log.warning("event %s was not written: %s", each.reason, error)


def _write(kube: Kube, key: DataflowKey | SnapshotKey, record: EventRecord, now: float) -> None:
    event = event_manifest(key, record, now)
    try:
        kube.create(event)
    except Changed:
        name = event["metadata"]["name"]
        known = kube.get("Event", key.namespace, name)
        count = 1 + int((known or {}).get("count") or 1)
        kube.patch("Event", key.namespace, name, {"count": count, "lastTimestamp": format_time(now)})


def event_manifest(key: DataflowKey | SnapshotKey, record: EventRecord, now: float) -> Object:
    """An event's manifest."""
    content = "\0".join((key.uid, record.reason, record.message))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{key.name}.{hashlib.sha256(content.encode()).hexdigest()[:16]}",
            "namespace": key.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": key.kind,
            "name": key.name,
            "namespace": key.namespace,
            "uid": key.uid,
        },
        "type": "Warning" if record.warning else "Normal",
        "reason": record.reason,
        "message": truncate(record.message, 1000),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": format_time(now),
        "lastTimestamp": format_time(now),
        "count": 1,
    }
