"""One look at one dataflow: read it, observe, decide, act, say. Everything else only makes looks happen.

Nothing is kept between two looks but `notes`, which are lost without harm. Nothing is done but upon what was read in the same look. The
status is written last, and only if it says something new.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from binshift_operator import events, status_codec
from binshift_operator.actor import ActionFailure, Actor, describe, is_permanent
from binshift_operator.children import next_attempt
from binshift_operator.decide import Decision, decide
from binshift_operator.errors import Changed, NotThere, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.memo import Memo, cache
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.actions import Action, Apply
from binshift_operator.model.names import API_VERSION, KIND, Child, DataflowKey
from binshift_operator.model.specification import Dataflow, parse, parse_invalid
from binshift_operator.model.status import Status
from binshift_operator.model.timeouts import Timeouts
from binshift_operator.observe import Observation, Observer
from binshift_operator.status import EventRecord, transitions

log = logging.getLogger(__name__)
NEXT_STEP_SECONDS = 0.5
"""After something was done."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconciliation.

    Attributes:
        requeue_after: seconds until the next reconciliation; None: the dataflow is gone.
    """

    requeue_after: float | None = None


@dataclass
class Reconciler:
    """Looks at dataflows.

    Attributes:
        kube: the API server.
        observer: the only one that reads.
        actor: the only one that writes, but for status and events.
        timeouts: the operator's patience.
        metrics: what is counted.
        clock: seconds since 1970.
        resync_seconds: within which everything about a dataflow is read again, whatever was heard of it.
        selector: of the dataflows that are looked after; all if empty.
    """

    kube: Kube
    observer: Observer
    actor: Actor
    timeouts: Timeouts
    metrics: OperatorMetrics
    clock: Callable[[], float]
    resync_seconds: float = 60.0
    selector: str = ""
    _memos: dict[tuple[str, str], Memo] = field(default_factory=dict)
    _invalidated: set[tuple[str, str]] = field(default_factory=set)

    def invalidate(self, namespace: str, name: str) -> None:
        """Something about a dataflow may have changed: at its next look everything is read. Called from any thread."""
        self._invalidated.add((namespace, name))

    def reconcile(self, namespace: str, name: str) -> Result:
        """Look once; seconds until the next look, or `GONE_SECONDS`.

        Raises:
            OperatorError: the API server or a control API does not answer, is too busy, or refuses; look again later.
        """
        found = self._read(namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"]:
            self._forget(namespace, name)
            return Result()
        before = status_codec.decode(found.get("status") or {})
        try:
            dataflow = parse(found)
        except (AttributeError, KeyError, TypeError, ValueError) as unfit:
            # Only what is read of the spec is the user's; errors of these kinds from anywhere else are the operator's own.
            dataflow = parse_invalid(found, _told(unfit))
        return self._reconcile(dataflow, found, before)

    def _read(self, namespace: str, name: str) -> Object | None:
        """The dataflow, if it is there and one of those to look after, which is for the API server to say."""
        if not self.selector:
            return self.kube.get(KIND, namespace, name)
        return next(iter(self.kube.list(KIND, namespace, self.selector, f"metadata.name={name}")), None)

    def _reconcile(self, dataflow: Dataflow, found: Object, before: Status) -> Result:
        memo = self._memo(dataflow.key)
        observation, decision = self._decide(dataflow, before, memo)
        result = self.actor.execute(dataflow, observation, decision.actions)
        self._update_memo(memo, observation, decision.actions[: result.done], result.failure)
        told = (
            *events.action_events(decision.actions[: result.done], observation.state),
            *events.rollout_events(dataflow.key, observation.state, memo.reported_rollouts),
        )
        self._publish(found, before, decision.status, told)
        if result.failure is not None:
            return self._handle_failure(dataflow.key, memo, result.failure)
        outcome = "invalid" if dataflow.parse_error else "acted" if result.changed else "awaited"
        self.metrics.reconciles.labels(outcome).inc()
        # A step that led somewhere is followed by the next one soon.
        return Result(NEXT_STEP_SECONDS if result.changed else decision.requeue_after)

    def _decide(self, dataflow: Dataflow, before: Status, memo: Memo) -> tuple[Observation, Decision]:
        """What is, and what to do. A dataflow at rest is glanced at; whatever that finds but rest is looked at in full."""
        heard = self._take_invalidation(dataflow.key)
        last, memo.cached = memo.cached, None
        # The look after this one must not be too late for the resync.
        seconds_max = self.resync_seconds - self.timeouts.rest_seconds
        if last is not None and not heard and last.is_valid(dataflow, self.clock(), seconds_max):
            observation = self.observer.observe_pods(dataflow, last, memo)
            decision = decide(observation.dataflow, observation.state, before, self.timeouts)
            if decision.is_settled and last.has_same_pods(observation.state):
                memo.cached = last
                return observation, decision
        observation = self.observer.observe(dataflow, memo)
        decision = decide(observation.dataflow, observation.state, before, self.timeouts)
        memo.cached = cache(observation.dataflow, observation.state, observation.token) if decision.is_settled else None
        return observation, decision

    def _take_invalidation(self, key: DataflowKey) -> bool:
        """Whether anything was noticed since the last look; asked before any child is read, so that nothing is missed."""
        place = key.namespace, key.name
        with contextlib.suppress(KeyError):
            self._invalidated.remove(place)
            return True
        return False

    def _memo(self, key: DataflowKey) -> Memo:
        """The notes of a dataflow; another one of its name has others."""
        place = key.namespace, key.name
        memo = self._memos.get(place)
        if memo is None or memo.uid != key.uid:
            memo = self._memos[place] = Memo(key.uid)
        return memo

    def _update_memo(
        self, memo: Memo, observation: Observation, done: Sequence[Action], failure: ActionFailure | None
    ) -> None:
        for action in done:
            if isinstance(action, Apply) and action.child in observation.manifests:
                child, last = action.child, memo.applied.get(action.child)
                before, manifest = observation.state.children[child], observation.manifests[child]
                budget = action.max_unavailable if child is Child.DISRUPTION_BUDGET else 0
                memo.applied[child] = next_attempt(before, manifest, last, self.clock(), budget)
        if failure is None:
            memo.failing_write = None
        else:
            memo.record_failure(describe(failure.action), str(failure.error), permanent=is_permanent(failure))

    def _handle_failure(self, key: DataflowKey, memo: Memo, failure: ActionFailure) -> Result:
        """What has changed under our hands is looked at again at once, what is refused with less haste, and less each time.

        Raises:
            Unreachable: nobody answered, or was too busy: the waits grow until somebody does.
        """
        error, what = failure.error, f"{describe(failure.action)}: this was not done"
        if isinstance(error, Unreachable):
            raise Unreachable(f"{what}: {error}", error.retry_after) from error
        self.metrics.failures.labels(type(error).__name__).inc()
        self.metrics.reconciles.labels("failed").inc()
        level = logging.INFO if isinstance(error, Changed) else logging.WARNING
        log.log(level, "%s: %s", what, error, extra={"dataflow": f"{key.namespace}/{key.name}"})
        times = 1 if isinstance(error, Changed) or memo.failing_write is None else memo.failing_write.failures
        if is_permanent(failure):
            return Result(self.timeouts.rest_seconds)
        return Result(min(self.timeouts.busy_seconds * times, self.timeouts.rest_seconds))

    def _publish(self, found: Object, before: Status, after: Status, told: tuple[EventRecord, ...]) -> None:
        """Events first, then the status: after a crash between the two, events are told again rather than never."""
        meta = found["metadata"]
        key = DataflowKey(meta["namespace"], meta["name"], meta["uid"])
        status = status_codec.encode(after, key)
        now = self.clock()
        changed = status != (found.get("status") or {})
        events.record(
            self.kube, key, (*told, *(transitions(before, status_codec.decode(status)) if changed else ())), now
        )
        self.metrics.record_status(key, before, after, now)
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

    def forget_all(self) -> None:
        """Another process acts from now on: what was seen is not what is, and is not shown any more."""
        self._memos.clear()
        self.metrics.clear()

    def _forget(self, namespace: str, name: str) -> None:
        self._memos.pop((namespace, name), None)
        self._invalidated.discard((namespace, name))
        self.metrics.remove(namespace, name)


def _told(unfit: Exception) -> str:
    """What is wrong with a spec; of a field that is missing Python says no more than its name."""
    return f"the spec lacks {unfit}" if isinstance(unfit, KeyError) else str(unfit)
