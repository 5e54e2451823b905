"""All metrics with their labels, as declared by runtime and operator, from a scrape in which every value is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from measured_epochs import EVERYTHING, Measured
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from binshift.control.models import State
from binshift.metrics import EPOCH_PARTS, RuntimeMetrics
from binshift.migration import Phase as MigrationPhase
from binshift.model import Epoch
from binshift_operator.metrics import OUTCOMES, OperatorMetrics
from binshift_operator.model.names import DataflowKey
from binshift_operator.model.reasons import DegradedReason, ProgressingReason
from binshift_operator.model.status import Condition, ConditionType, Phase, Status

TARGET = frozenset({"job", "namespace"})
"""Labels that every target has; the README of the chart names them."""
FOREIGN = {
    "up": {"dataflow"},
    "container_memory_working_set_bytes": {"pod", "container"},
    "container_cpu_usage_seconds_total": {"pod", "container"},
}
"""Metrics of Prometheus itself and of the kubelet."""
VALUES: Mapping[tuple[str, str], set[str]] = {
    ("binshift_migration_phase", "phase"): {each.value for each in MigrationPhase},
    ("binshift_state", "state"): {each.value for each in State},
    ("binshift_epoch_duration_seconds", "part"): set(EPOCH_PARTS.values()),
    ("binshift_record_latency_seconds", "moving"): {"true", "false"},
    ("dataflow:binshift_record_latency_seconds:p99", "moving"): {"true", "false"},
    ("binshift_operator_dataflows", "condition"): {each.value for each in ConditionType},
    ("binshift_operator_phases", "phase"): {each.value for each in Phase},
    ("binshift_operator_degraded", "reason"): {each.value for each in DegradedReason},
    ("binshift_operator_troubles", "reason"): {each.value for each in DegradedReason},
    ("binshift_operator_awaited_seconds", "reason"): {each.value for each in ProgressingReason},
    ("binshift_operator_reconciles_total", "outcome"): set(OUTCOMES),
}
"""By metric (without a histogram's suffix) and label, what can be selected."""


def of_runtime() -> list[Metric]:
    """A scrape of a driver."""
    return list(RuntimeMetrics(CollectorRegistry(), lambda: [Measured(Epoch(0))], lambda: EVERYTHING).collect())


def of_operator() -> list[Metric]:
    """A scrape of an operator that has written and failed."""
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    metrics.record_write("create", "Pod")
    degraded = Condition(ConditionType.DEGRADED, True, DegradedReason.IMAGE_PULL.value, "", 1, 0.0)
    metrics.record_status(DataflowKey("team", "clicks", "u"), Status(), Status(conditions=(degraded,)), 0.0)
    metrics.failures.labels("Changed").inc()
    return list(registry.collect())


def samples(families: Iterable[Metric], *more: str) -> dict[str, frozenset[str]]:
    """The names of all samples, with their labels and those of their target."""
    found: dict[str, frozenset[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found[sample.name] = found.get(sample.name, frozenset()) | frozenset(sample.labels) | TARGET | {*more}
    return found


def everything() -> dict[str, frozenset[str]]:
    """Every metric that may be named, with its labels."""
    foreign = {name: TARGET | labels for name, labels in FOREIGN.items()}
    return samples(of_runtime(), "dataflow") | samples(of_operator()) | foreign
