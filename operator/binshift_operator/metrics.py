"""Every metric of the operator, declared once, in a registry that is passed in.

Only problems are reported by dataflow, for as long as they last; no other label is unbounded.
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


class OperatorMetrics(Collector):
    """The operator's metrics, and the number of dataflows by condition, by phase and by problem as last reconciled."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._statuses: dict[tuple[str, str], Status] = {}
        self._paused = False
        registry.register(self)
        self.leading = Gauge("binshift_operator_leading", "1 if this process is the leader, else 0.", registry=registry)
        self.reconciles = Counter(
            "binshift_operator_reconciles", "Reconciliations, by outcome.", ["outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "binshift_operator_reconcile_seconds",
            "Duration of a reconciliation.",
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self.writes = Counter(
            "binshift_operator_api_writes", "Writes that the API server accepted.", ["verb", "kind"], registry=registry
        )
        self.failures = Counter(
            "binshift_operator_failures",
            "Actions and reconciliations that failed, by error.",
            ["error"],
            registry=registry,
        )
        self.awaited_seconds = Histogram(
            "binshift_operator_awaited_seconds",
            "How long something was awaited (pods, registration, migration, ...), by reason.",
            ["reason"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )
        # Each from the first scrape on: the increase of a counter that appears later is unknown.
        for outcome in OUTCOMES:
            self.reconciles.labels(outcome)
        for awaited in ProgressingReason:
            self.awaited_seconds.labels(awaited.value)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`."""
        with self._lock:
            statuses = dict(self._statuses)
        true = [
            ((*key, each.reason), each.type)
            for key, status in sorted(statuses.items())
            for each in status.conditions
            if each.status
        ]
        degraded = [labels for labels, kind in true if kind is ConditionType.DEGRADED]
        conditions, phases = Count(kind for _, kind in true), Count(status.phase for status in statuses.values())
        reasons = Count(reason for *_, reason in degraded)
        yield _gauge(
            "dataflows", "Dataflows by condition that is True.", "condition", {k: conditions[k] for k in ConditionType}
        )
        yield _gauge("phases", "Dataflows by phase.", "phase", {phase: phases[phase] for phase in Phase})
        yield _gauge(
            "troubles", "Dataflows that are Degraded, by reason.", "reason", {r: reasons[r] for r in DegradedReason}
        )
        found = GaugeMetricFamily(
            "binshift_operator_degraded",
            "1 for each dataflow that is Degraded, with the reason.",
            labels=["dataflow_namespace", "dataflow", "reason"],
        )
        for labels in degraded:
            found.add_metric(labels, 1)
        yield found

    def record_status(self, key: DataflowKey, before: Status, after: Status, now: float) -> None:
        """Record the status after a reconciliation; another dataflow of the same name replaces an earlier one."""
        with self._lock:
            if not self._paused:  # else the reconciliation was running when another process took over
                self._statuses[key.namespace, key.name] = after
        last = before.awaiting
        if last is not None and after.awaiting != last:
            self.awaited_seconds.labels(last.reason).observe(max(0.0, now - last.since))

    def remove(self, namespace: str, name: str) -> None:
        """Remove a deleted dataflow."""
        with self._lock:
            self._statuses.pop((namespace, name), None)

    def clear(self) -> None:
        """Remove all dataflows, and ignore running reconciliations, as another process is the leader now."""
        with self._lock:
            self._paused = True
            self._statuses.clear()

    def resume(self) -> None:
        """Record dataflows again, as this process is the leader again."""
        with self._lock:
            self._paused = False

    def record_write(self, verb: str, kind: str) -> None:
        """Count a write that the API server accepted."""
        self.writes.labels(verb, kind).inc()


def _gauge(name: str, text: str, label: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"binshift_operator_{name}", text, labels=[label])
    for value, count in counts.items():
        found.add_metric([str(value)], count)
    return found
