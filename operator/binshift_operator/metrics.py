"""Every metric of the operator, declared once, in a registry that is passed in.

Only what is wrong is told by dataflow, for as long as it is wrong; no other label is unbounded.
"""

from __future__ import annotations

import threading
from collections import Counter as Count
from collections.abc import Iterator, Mapping

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from binshift_operator.model.names import DataflowKey
from binshift_operator.model.reasons import DegradedReason, ProgressingReason
from binshift_operator.model.status import ConditionType, Phase, Status

RECONCILE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
OUTCOMES = ("acted", "awaited", "failed", "invalid")
WAIT_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class _Dataflows(Collector):
    """Dataflows by condition, by phase and by what is wrong with them, as last seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statuses: dict[tuple[str, str], Status] = {}
        self._closed = False

    def note(self, namespace: str, name: str, status: Status | None) -> None:
        """By its place: another dataflow of the same name takes the place of the one before, whose end nobody may have seen."""
        with self._lock:
            if self._closed:
                return  # a reconciliation that was running when another process took over
            if status is None:
                self._statuses.pop((namespace, name), None)
            else:
                self._statuses[(namespace, name)] = status

    def close(self) -> None:
        """Forget all dataflows, and ignore new ones until opened again."""
        with self._lock:
            self._closed = True
            self._statuses.clear()

    def open(self) -> None:
        """Count dataflows again."""
        with self._lock:
            self._closed = False

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            places = dict(self._statuses)
        seen = list(places.values())
        by_condition = GaugeMetricFamily(
            "binshift_operator_dataflows", "Dataflows by condition that is True.", labels=["condition"]
        )
        for kind in ConditionType:
            true = sum(1 for status in seen if (found := status.condition(kind)) is not None and found.status)
            by_condition.add_metric([kind.value], true)
        by_phase = GaugeMetricFamily("binshift_operator_phases", "Dataflows by phase.", labels=["phase"])
        phases = Count(status.phase for status in seen)
        for phase in Phase:
            by_phase.add_metric([phase.value], phases[phase])
        by_trouble = GaugeMetricFamily(
            "binshift_operator_troubles", "Dataflows that are Degraded, by reason.", labels=["reason"]
        )
        degraded = (status.condition(ConditionType.DEGRADED) for status in seen)
        troubles = Count(found.reason for found in degraded if found is not None and found.status)
        for trouble in DegradedReason:
            by_trouble.add_metric([trouble.value], troubles[trouble])
        yield from (by_condition, by_phase, by_trouble, _degraded(places))


def _degraded(places: Mapping[tuple[str, str], Status]) -> GaugeMetricFamily:
    found = GaugeMetricFamily(
        "binshift_operator_degraded",
        "1 for each dataflow that is Degraded, with why.",
        labels=["dataflow_namespace", "dataflow", "reason"],
    )
    for (namespace, name), status in sorted(places.items()):
        degraded = status.condition(ConditionType.DEGRADED)
        if degraded is not None and degraded.status:
            found.add_metric([namespace, name, degraded.reason], 1)
    return found


class OperatorMetrics:
    """The operator's metrics.

    Args:
        registry: where they are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._dataflows = _Dataflows()
        registry.register(self._dataflows)
        self.leading = Gauge(
            "binshift_operator_leading", "1 while this process acts, 0 while another one does.", registry=registry
        )
        self.reconciles = Counter(
            "binshift_operator_reconciles", "Looks at a dataflow, by outcome.", ["outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "binshift_operator_reconcile_seconds", "Duration of a look.", buckets=RECONCILE_BUCKETS, registry=registry
        )
        self.writes = Counter(
            "binshift_operator_api_writes", "Writes the API server accepted.", ["verb", "kind"], registry=registry
        )
        self.failures = Counter(
            "binshift_operator_failures", "Actions and looks that failed, by error.", ["error"], registry=registry
        )
        self.awaited_seconds = Histogram(
            "binshift_operator_awaited_seconds",
            "How long something was awaited (pods, registration, migration, ...), by reason.",
            ["reason"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )

        # Each from the first scrape on: who sees a counter for the first time cannot tell what it has counted.
        for outcome in OUTCOMES:
            self.reconciles.labels(outcome)
        for awaited in ProgressingReason:
            self.awaited_seconds.labels(awaited.value)

    def record_status(self, key: DataflowKey, before: Status, after: Status, now: float) -> None:
        """A look has ended with this status."""
        self._dataflows.note(key.namespace, key.name, after)
        last = before.awaiting
        if last is not None and (after.awaiting is None or after.awaiting.reason != last.reason):
            self.awaited_seconds.labels(last.reason).observe(max(0.0, now - last.since))

    def remove(self, namespace: str, name: str) -> None:
        """A dataflow is there no more."""
        self._dataflows.note(namespace, name, None)

    def clear(self) -> None:
        """This process leads no more: forget all dataflows, and ignore a reconciliation that is still running."""
        self._dataflows.close()

    def resume(self) -> None:
        """This process leads again."""
        self._dataflows.open()

    def record_write(self, verb: str, kind: str) -> None:
        """The API server accepted a write."""
        self.writes.labels(verb, kind).inc()
