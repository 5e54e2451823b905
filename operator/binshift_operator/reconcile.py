"""One look at one dataflow: read it, observe, decide, act, say. Everything else only makes looks happen.

Nothing is kept between two looks but what the API server refused of the children, which is told in the next status, and is lost
without harm. The status is written last, and only if it says something new.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from binshift.errors import BinshiftError
from binshift_operator import events, statuses
from binshift_operator.act import Actor, refusal
from binshift_operator.decide import Decision, Limits, decide
from binshift_operator.errors import Changed, NotThere
from binshift_operator.kube import Kube, Object
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import API_VERSION, KIND, Child, Key
from binshift_operator.model.reasons import Awaited, Trouble
from binshift_operator.model.specification import Dataflow, read
from binshift_operator.model.status import Awaiting, Condition, ConditionType, Status, shortened
from binshift_operator.observe import Observer
from binshift_operator.phases import Told, transitions

log = logging.getLogger(__name__)
NEXT_STEP_SECONDS = 0.5
"""After something was done."""
GONE_SECONDS = -1.0
"""Instead of a time for the next look: there is nothing to look at any more."""


@dataclass
class Reconciler:
    """Looks at dataflows.

    Attributes:
        kube: the API server.
        observer: the only one that reads.
        actor: the only one that writes, but for status and events.
        limits: the operator's patience.
        metrics: what is counted.
        clock: seconds since 1970.
    """

    kube: Kube
    observer: Observer
    actor: Actor
    limits: Limits
    metrics: OperatorMetrics
    clock: Callable[[], float]
    _refusals: dict[str, Mapping[Child, str]] = field(default_factory=dict)
    _names: dict[tuple[str, str], Key] = field(default_factory=dict)

    def look(self, namespace: str, name: str) -> float:
        """Look once; seconds until the next look, or `GONE_SECONDS`.

        Raises:
            OperatorError: the API server does not answer, or refuses; look again later.
        """
        found = self.kube.get(KIND, namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"]:
            self._forget(namespace, name)
            return GONE_SECONDS
        before = statuses.read(found.get("status") or {})
        try:
            dataflow = read(found)
            self._names[(namespace, name)] = dataflow.key
            return self._look(dataflow, found, before)
        except (ValueError, KeyError, BinshiftError) as unfit:
            self._say(found, before, invalid(found, before, str(unfit), self.clock()), ())
            self.metrics.looks.labels("invalid").inc()
            return self.limits.rest_seconds

    def _look(self, dataflow: Dataflow, found: Object, before: Status) -> float:
        key = dataflow.key
        seen = self.observer.look(dataflow, self._refusals.get(key.uid, {}))
        decision = decide(dataflow, seen.world, before, self.limits)
        done, failed = self.actor.carry_out(dataflow, seen, decision.actions)
        refused = None if failed is None else refusal(failed)
        self._refusals[key.uid] = {} if refused is None else dict([refused])
        told = tuple(events.told_of(decision.actions[:done], seen.world))
        self._say(found, before, decision.status, told)
        if failed is None:
            self.metrics.looks.labels("acted" if done else "awaited").inc()
            return _next(decision, done)
        self.metrics.failures.labels(type(failed.error).__name__).inc()
        self.metrics.looks.labels("failed").inc()
        # What has changed under our hands is looked at again at once; what is refused, with less haste.
        level = logging.INFO if isinstance(failed.error, Changed) else logging.WARNING
        log.log(
            level, "%s was not done: %s", failed.action, failed.error, extra={"dataflow": f"{key.namespace}/{key.name}"}
        )
        return self.limits.rest_seconds if refused is not None else self.limits.busy_seconds

    def _say(self, found: Object, before: Status, after: Status, told: tuple[Told, ...]) -> None:
        """Events first, then the status: after a crash between the two, events are told again rather than never."""
        meta = found["metadata"]
        key = Key(meta["namespace"], meta["name"], meta["uid"])
        status = statuses.written(after, key)
        now = self.clock()
        changed = status != (found.get("status") or {})
        events.tell(self.kube, key, (*told, *(transitions(before, statuses.read(status)) if changed else ())), now)
        self.metrics.seen(key, before, after, now)
        if not changed:
            return
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": key.uid},
            "status": status,
        }
        try:
            self.kube.apply(body, "status")
        except (Changed, NotThere):
            log.info("dataflow %s/%s has gone meanwhile", key.namespace, key.name)

    def _forget(self, namespace: str, name: str) -> None:
        key = self._names.pop((namespace, name), None)
        if key is not None:
            self._refusals.pop(key.uid, None)
            self.metrics.gone(key)


def _next(decision: Decision, done: int) -> float:
    """A step that led somewhere is followed by the next one soon."""
    return NEXT_STEP_SECONDS if done else decision.look_again_seconds


def invalid(found: Object, before: Status, why: str, now: float) -> Status:
    """The status of a dataflow whose spec cannot be carried out; what runs of it goes on as it is."""
    generation = int(found["metadata"]["generation"])
    last = before.condition(ConditionType.DEGRADED)
    since = last.since if last is not None and last.status else now
    degraded = Condition(ConditionType.DEGRADED, True, Trouble.INVALID_SPEC.value, shortened(why), generation, since)
    waiting = before.condition(ConditionType.PROGRESSING)
    began = waiting.since if waiting is not None and waiting.status else now
    progressing = Condition(
        ConditionType.PROGRESSING, True, Awaited.CHILDREN.value, "the spec has to be put right", generation, began
    )
    others = tuple(each for each in before.conditions if each.type not in (degraded.type, progressing.type))
    return replace(
        before,
        observed_generation=generation,
        awaiting=before.awaiting or Awaiting(Awaited.CHILDREN.value, now),
        conditions=(*others, progressing, degraded),
    )
