"""Tells Kubernetes Events about a dataflow: one object for each thing that is told, counted when it happens again.

The name is made of what is told, so that telling twice (after a crash between two writes) counts twice and lists once. Events are
for people: one that cannot be written is logged and forgotten.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from binshift_operator.errors import Changed, OperatorError
from binshift_operator.kube import Kube, Object
from binshift_operator.model.actions import Action, Apply, DeletePod
from binshift_operator.model.names import API_VERSION, FIELD_MANAGER, KIND, Child, DataflowKey
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.status import truncate
from binshift_operator.pod_state import seconds
from binshift_operator.status import EventRecord
from binshift_operator.status_codec import format_time

log = logging.getLogger(__name__)
RECENT_SECONDS: Final = 300.0
"""Maximum age of a request to restart that is answered."""


def action_events(actions: Sequence[Action], observed: ObservedState) -> Iterable[EventRecord]:
    """What to tell of what was done."""
    for action in actions:
        match action:
            case Apply(Child.EXECUTORS, int(replicas)) if replicas != observed.children[Child.EXECUTORS].replicas:
                yield EventRecord(
                    "Scaled", f"executor pods: {observed.children[Child.EXECUTORS].replicas} to {replicas}"
                )
            case DeletePod(name, _, why, force):
                yield EventRecord(
                    "PodReplaced", f"pod {name} is deleted{' by force' if force else ''}: {why}", warning=force
                )
            case _:
                pass


def rollout_events(key: DataflowKey, observed: ObservedState, known: dict[Child, str]) -> Iterable[EventRecord]:
    """What to tell of `kubectl rollout restart`, which replaces no pod of ours; each is told once, and then ``known``.

    The request stays in the template, so an old one is skipped: the operator process of that time has told it.
    """
    for child, seen in observed.children.items():
        if seen.restarted_at and known.get(child) != seen.restarted_at and _is_recent(seen.restarted_at, observed.now):
            known[child] = seen.restarted_at
            yield EventRecord(
                "RolloutRestartIgnored",
                f"kubectl rollout restart of StatefulSet {key.child(child)} ({seen.restarted_at}) replaces no pod. To restart the dataflow, "
                f"set spec.restartNonce to another number: kubectl edit sdf {key.name}",
                warning=True,
            )


def _is_recent(requested_at: str, now: float) -> bool:
    """Whether the request is recent, by a clock that may differ from the operator's."""
    try:
        return abs(now - seconds(requested_at)) < RECENT_SECONDS
    except ValueError:
        return False


def record(kube: Kube, key: DataflowKey, told: Iterable[EventRecord], now: float) -> None:
    """Write events; never fails."""
    for each in told:
        log.info("%s", each.message, extra={"dataflow": f"{key.namespace}/{key.name}", "reason": each.reason})
        try:
            _tell(kube, key, each, now)
        except OperatorError as error:
            log.warning("event %s was not written: %s", each.reason, error)


def _tell(kube: Kube, key: DataflowKey, told: EventRecord, now: float) -> None:
    event = event_manifest(key, told, now)
    try:
        kube.create(event)
    except Changed:
        name = event["metadata"]["name"]
        known = kube.get("Event", key.namespace, name)
        count = 1 + int((known or {}).get("count") or 1)
        kube.patch("Event", key.namespace, name, {"count": count, "lastTimestamp": format_time(now)})


def event_manifest(key: DataflowKey, told: EventRecord, now: float) -> Object:
    """An event's manifest."""
    words = "\0".join((key.uid, told.reason, told.message))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{key.name}.{hashlib.sha256(words.encode()).hexdigest()[:16]}",
            "namespace": key.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": key.name,
            "namespace": key.namespace,
            "uid": key.uid,
        },
        "type": "Warning" if told.warning else "Normal",
        "reason": told.reason,
        "message": truncate(told.message, 1000),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": format_time(now),
        "lastTimestamp": format_time(now),
        "count": 1,
    }
