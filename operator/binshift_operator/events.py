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
from binshift_operator.model.names import API_VERSION, FIELD_MANAGER, KIND, Child, Key
from binshift_operator.model.status import shortened
from binshift_operator.model.world import World
from binshift_operator.phases import Told
from binshift_operator.pods import seconds
from binshift_operator.statuses import moment

log = logging.getLogger(__name__)
RECENT_SECONDS: Final = 300.0
"""How old a request to restart may be that is answered."""


def told_of(actions: Sequence[Action], world: World) -> Iterable[Told]:
    """What to tell of what was done."""
    for action in actions:
        match action:
            case Apply(Child.EXECUTORS, int(replicas)) if replicas != world.children[Child.EXECUTORS].replicas:
                yield Told("Scaled", f"executor pods: {world.children[Child.EXECUTORS].replicas} to {replicas}")
            case DeletePod(name, _, why, force):
                yield Told("PodReplaced", f"pod {name} is deleted{' by force' if force else ''}: {why}", warning=force)
            case _:
                pass


def rollouts(key: Key, world: World, known: dict[Child, str]) -> Iterable[Told]:
    """What to tell of `kubectl rollout restart`, which replaces no pod of ours; each is told once, and then ``known``.

    The request stays in the template: an old one was told by whichever process looked then.
    """
    for child, seen in world.children.items():
        if seen.restarted and known.get(child) != seen.restarted and _recent(seen.restarted, world.now):
            known[child] = seen.restarted
            yield Told(
                "RolloutRestartIgnored",
                f"kubectl rollout restart of StatefulSet {key.child(child)} ({seen.restarted}) replaces no pod. To restart the dataflow, "
                f"set spec.restartNonce to another number: kubectl edit sdf {key.name}",
                warning=True,
            )


def _recent(asked: str, now: float) -> bool:
    """Whether that was asked for just now, by a clock that may not be quite the operator's."""
    try:
        return abs(now - seconds(asked)) < RECENT_SECONDS
    except ValueError:
        return False


def tell(kube: Kube, key: Key, told: Iterable[Told], now: float) -> None:
    """Write events; never fails."""
    for each in told:
        log.info("%s", each.message, extra={"dataflow": f"{key.namespace}/{key.name}", "reason": each.reason})
        try:
            _tell(kube, key, each, now)
        except OperatorError as error:
            log.warning("event %s was not written: %s", each.reason, error)


def _tell(kube: Kube, key: Key, told: Told, now: float) -> None:
    event = rendered(key, told, now)
    try:
        kube.create(event)
    except Changed:
        name = event["metadata"]["name"]
        known = kube.get("Event", key.namespace, name)
        count = 1 + int((known or {}).get("count") or 1)
        kube.merge("Event", key.namespace, name, {"count": count, "lastTimestamp": moment(now)})


def rendered(key: Key, told: Told, now: float) -> Object:
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
        "message": shortened(told.message, 1000),
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": moment(now),
        "lastTimestamp": moment(now),
        "count": 1,
    }
