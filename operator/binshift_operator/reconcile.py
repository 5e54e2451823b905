"""Reconciles one dataflow: reads it, observes, decides, acts, and publishes the status. Everything else only triggers reconciliations.

Only a `Memo` is kept between two reconciliations, and it can be lost without harm. Actions are taken only upon what was read in the same
reconciliation. The status is written last, and only if it has changed.
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
from binshift_operator.decide.restoring import with_known_location
from binshift_operator.errors import Changed, NotThere, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.memo import Memo, cache
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.actions import Action, Apply, Rebalance
from binshift_operator.model.names import Child, DataflowKey
from binshift_operator.model.situation import Timeouts
from binshift_operator.model.specification import Dataflow, read
from binshift_operator.model.status import Status
from binshift_operator.observe import Observation, Observer
from binshift_operator.served import find_served
from binshift_operator.status import EventRecord, transitions
from binshift_operator.status_writer import StatusWriter

log = logging.getLogger(__name__)
NEXT_STEP_SECONDS = 0.5
"""After an action that changed something."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconciliation.

    Attributes:
        requeue_after: seconds until the next reconciliation; None: the dataflow is gone.
    """

    requeue_after: float | None = None


@dataclass
class Reconciler:
    """Reconciles dataflows.

    Attributes:
        kube: the API server.
        observer: the only component that reads.
        actor: the only component that writes, except for status and events.
        timeouts: the operator's timeouts.
        metrics: counts reconciliations.
        clock: seconds since 1970.
        resync_seconds: within which everything about a dataflow is read again, whether there were events or not.
        selector: label selector of the dataflows to reconcile; empty: all.
    """

    kube: Kube
    observer: Observer
    actor: Actor
    timeouts: Timeouts
    metrics: OperatorMetrics
    clock: Callable[[], float]
    resync_seconds: float = 60.0
    selector: str = ""
    _writer: StatusWriter = field(default_factory=StatusWriter)
    _memos: dict[tuple[str, str], Memo] = field(default_factory=dict)
    _settled: dict[tuple[str, str], tuple[Observation, Status]] = field(default_factory=dict)
    _invalidated: set[tuple[str, str]] = field(default_factory=set)

    def invalidate(self, namespace: str, name: str) -> None:
        """Read everything in the next reconciliation of a dataflow, as it may have changed. Called from any thread."""
        self._invalidated.add((namespace, name))

    def on_node(self, node: str) -> list[tuple[str, str]]:
        """The dataflows with executors on a node, as last observed. Called from any thread."""
        return [key for key, memo in tuple(self._memos.items()) if node in memo.nodes]

    def reconcile(self, namespace: str, name: str) -> Result:
        """Reconcile a dataflow once.

        Raises:
            OperatorError: the API server or a control API does not answer, is too busy, or rejects a request; reconcile again later.
        """
        if self._is_as_it_was(namespace, name):
            return Result(self.timeouts.load_seconds)
        found = find_served(self.kube, self.selector, namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"]:
            self._forget(namespace, name)
            return Result()
        before = status_codec.decode(self._writer.stored(found))
        return self._reconcile(with_known_location(read(found), before), found, before)

    def _is_as_it_was(self, namespace: str, name: str) -> bool:
        """Whether the load of a settled dataflow gives no reason to read anything else; without a request to the API server.

        An event ends this, and so does the time of a settled dataflow's next reconciliation: until then, the driver's address is known.
        """
        key = namespace, name
        kept = self._settled.get(key)  # another thread may forget all
        if kept is None or key in self._invalidated:
            return False
        (seen, status), memo = kept, self._memo(kept[0].dataflow.key)
        if self.clock() - seen.state.now >= self.timeouts.rest_seconds:
            return False
        decision = self._decide_on(self.observer.observe_runtime(seen, memo), status, memo)
        return decision.is_settled and decision.status.autoscaling == status.autoscaling

    def _reconcile(self, dataflow: Dataflow, found: Object, before: Status) -> Result:
        memo = self._memo(dataflow.key)
        self._settled.pop((dataflow.key.namespace, dataflow.key.name), None)
        observation, decision = self._decide(dataflow, before, memo)
        result = self.actor.execute(dataflow, observation, decision.actions)
        self._update_memo(memo, observation, decision.actions[: result.done], result.failure)
        records = (
            *events.action_events(decision.actions[: result.done], observation.state),
            *events.rollout_events(dataflow.key, observation.state, memo.reported_rollouts),
        )
        self._publish(found, before, decision.status, records)
        if result.failure is not None:
            return self._handle_failure(dataflow.key, memo, result.failure)
        if decision.is_settled and decision.requeue_after < self.timeouts.rest_seconds:
            self._settled[dataflow.key.namespace, dataflow.key.name] = observation, decision.status
        outcome = "invalid" if dataflow.parse_error else "acted" if result.changed else "awaited"
        self.metrics.reconciles.labels(outcome).inc()
        return Result(NEXT_STEP_SECONDS if result.changed else decision.requeue_after)

    def _decide(self, dataflow: Dataflow, before: Status, memo: Memo) -> tuple[Observation, Decision]:
        """Observe and decide. The cached observation of a settled dataflow can only confirm that it is still settled."""
        invalidated = self._take_invalidation(dataflow.key)
        last, memo.cached = memo.cached, None
        # The next reconciliation must not be too late for the resync.
        seconds_max = self.resync_seconds - self.timeouts.rest_seconds
        if last is not None and not invalidated and last.is_valid(dataflow, self.clock(), seconds_max):
            observation = self.observer.observe_pods(dataflow, last, memo)
            decision = self._decide_on(observation, before, memo)
            if decision.is_settled and last.has_same_pods(observation.state):
                memo.cached = last
                return observation, decision
        observation = self.observer.observe(dataflow, memo)
        decision = self._decide_on(observation, before, memo)
        memo.cached = (
            cache(observation.dataflow, observation.state, observation.access) if decision.is_settled else None
        )
        return observation, decision

    def _decide_on(self, observation: Observation, before: Status, memo: Memo) -> Decision:
        memo.nodes = frozenset(pod.node for pod in observation.state.executors)
        return decide(observation.dataflow, observation.state, before, self.timeouts, memo.scaling)

    def _take_invalidation(self, key: DataflowKey) -> bool:
        """Whether the dataflow was invalidated; called before any child is read, so that no event is missed."""
        with contextlib.suppress(KeyError):
            self._invalidated.remove((key.namespace, key.name))
            return True
        return False

    def _memo(self, key: DataflowKey) -> Memo:
        """The memo of a dataflow; another dataflow of the same name has another one."""
        memo = self._memos.setdefault((key.namespace, key.name), Memo(key.uid))
        if memo.uid != key.uid:
            memo = self._memos[key.namespace, key.name] = Memo(key.uid)
        return memo

    def _update_memo(
        self, memo: Memo, observation: Observation, done: Sequence[Action], failure: ActionFailure | None
    ) -> None:
        for action in done:
            if isinstance(action, Rebalance):
                memo.scaling.rebalance = ""
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
        """Requeue at once after a conflict, and later and later after rejected writes.

        Raises:
            Unreachable: there was no response, or the server was too busy; the work queue backs off.
        """
        error, what = failure.error, f"{describe(failure.action)} failed"
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

    def _publish(self, found: Object, before: Status, after: Status, records: tuple[EventRecord, ...]) -> None:
        """Events first, then the status: after a crash between the two, events are recorded twice rather than never."""
        meta = found["metadata"]
        key = DataflowKey(meta["namespace"], meta["name"], meta["uid"])
        status = status_codec.encode(after, key)
        now = self.clock()
        changed = status != self._writer.stored(found)
        changes = transitions(before, status_codec.decode(status)) if changed else ()
        events.record(self.kube, key, (*records, *changes), now)
        self.metrics.record_status(key, before, after, now)
        if not changed:
            return
        try:
            self._writer.write(self.kube, key, status)
        except (Changed, NotThere):
            log.info("dataflow %s/%s was deleted meanwhile", key.namespace, key.name)

    def forget_all(self) -> None:
        """Drop all memos and metrics, because another process has taken over."""
        self._memos.clear()
        self._settled.clear()
        self._writer = StatusWriter()
        self.metrics.clear()

    def _forget(self, namespace: str, name: str) -> None:
        self._memos.pop((namespace, name), None)
        self._settled.pop((namespace, name), None)
        self._writer.forget(namespace, name)
        self._invalidated.discard((namespace, name))
        self.metrics.remove(namespace, name)
