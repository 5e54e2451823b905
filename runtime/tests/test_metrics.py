"""The runtime's metrics: all declared metrics are exposed, counts add up, and unknown values are omitted."""

from __future__ import annotations

import re

import pytest
from measured_epochs import EVERYTHING, Done, Measured
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from binshift.metrics import DECLARED, PREFIX, BatchHistogram, Observed, RuntimeMetrics
from binshift.metrics.measured import arrivals
from binshift.migration import Phase
from binshift.model import Epoch

UNITS = ("_bins", "_bytes", "_epochs", "_files", "_keys", "_per_second", "_rows", "_seconds", "_share", "_workers")
UNITLESS = {"epoch", "route_version", "workers", "state", "migration_phase", "recoveries", "worker_background_failures"}


def families(observed: Observed, *epochs: Measured) -> dict[str, Metric]:
    """The result of a scrape, parsed as Prometheus does."""
    registry = CollectorRegistry()
    RuntimeMetrics(registry, lambda: epochs, lambda: observed)
    return scraped(registry)


def scraped(registry: CollectorRegistry) -> dict[str, Metric]:
    """The same of a registry."""
    text = generate_latest(registry).decode()
    return {f.name: f for f in text_string_to_metric_families(text)}


def value(found: dict[str, Metric], name: str, suffix: str = "", **labels: str) -> float:
    samples = found[PREFIX + name].samples
    (sample,) = (s for s in samples if s.name == PREFIX + name + suffix and s.labels == labels)
    return sample.value


def test_all_that_is_declared_is_shown() -> None:
    """When all values are known, a scrape has exactly the declared metrics, in a form that both parsers accept."""
    registry = CollectorRegistry()
    metrics = RuntimeMetrics(registry, lambda: [Measured(Epoch(0))], lambda: EVERYTHING)
    declared = {each.name for each in metrics.describe()}
    assert {each.name for each in metrics.collect()} == declared
    text = generate_open_metrics(registry).decode()  # type: ignore[no-untyped-call]
    assert {f.name for f in open_metrics(text)} == declared  # type: ignore[no-untyped-call]
    assert declared >= {PREFIX + each.name for each in DECLARED}


def test_names_have_their_unit() -> None:
    """Each name has the prefix, is in base units and ends with its unit, if it has one; each has a help text."""
    for family in RuntimeMetrics(CollectorRegistry(), list, Observed).describe():
        name = family.name.removeprefix(PREFIX)
        assert re.fullmatch(PREFIX + "[a-z_]+", family.name)
        assert name in UNITLESS or name.endswith(UNITS), name
        assert "_milli" not in name
        assert family.documentation.endswith(".")


def test_labels_are_closed_sets() -> None:
    """The only labels are a worker, an operator, a phase, a state, whether bins move, a part of an epoch and a bucket; an unknown part
    has no label."""
    odd = Measured(Epoch(0), seconds={"total": 0.3, "key-8d1f": 0.1})
    found = families(EVERYTHING, odd)
    labels = {(k, v) for f in found.values() for s in f.samples for k, v in s.labels.items() if k != "le"}
    assert {k for k, _ in labels} == {"worker", "operator", "phase", "state", "moving", "part"}
    assert {v for k, v in labels if k == "part"} == {"total"}


def test_what_is_not_known_is_left_out() -> None:
    """A value that was not measured is absent, not 0; without a migration every phase is 0."""
    found = families(Observed())
    for name in ("route_version", "worker_bins", "watermark_lag_seconds", "stored_rows", "log_bytes"):
        assert PREFIX + name not in found
    assert value(found, "epoch") == -1
    assert {s.value for s in found[PREFIX + "migration_phase"].samples} == {0.0}


def test_what_is_true_now() -> None:
    """Gauges have the current values of the query, by worker if they concern workers."""
    found = families(EVERYTHING)
    assert value(found, "worker_bins", worker="1") == 6
    assert value(found, "copied_bytes", "_total") == 1000
    assert (value(found, "state", state="Running"), value(found, "state", state="Loading")) == (1, 0)
    assert (value(found, "workers"), value(found, "target_workers")) == (2, 3)
    assert value(found, "epoch_running_seconds") == 0.25
    assert value(found, "migration_left_seconds") == 12.5
    phases = {s.labels["phase"]: s.value for s in found[PREFIX + "migration_phase"].samples}
    assert phases == {phase.value: float(phase is Phase.FLIPPING) for phase in Phase}


def test_epochs_are_counted_once() -> None:
    """A scrape adds the epochs since the last one, however often it sees them."""
    registry, epochs = (
        CollectorRegistry(),
        [Measured(Epoch(5), runs=3, moved=2, operators=(Done(brought_up=7, rows_late=3),) * 2)],
    )
    RuntimeMetrics(registry, lambda: epochs, lambda: EVERYTHING)
    scraped(registry)
    epochs.append(Measured(Epoch(6)))
    scraped(registry)
    found = scraped(registry)
    assert value(found, "input_rows", "_total") == 20
    assert value(found, "output_rows", "_total") == 8
    assert value(found, "moved_bins", "_total") == 2
    assert value(found, "cold_bring_up_bins", "_total") == 14
    assert value(found, "late_rows", "_total") == 6
    assert value(found, "stored_rows") == 50
    assert value(found, "record_latency_seconds", "_count", moving="false") == 20
    assert value(found, "flip_duration_seconds", "_count") == 1
    assert value(found, "epoch_duration_seconds", "_count", part="total") == 2


def test_parts_of_an_epoch_have_public_names() -> None:
    """Parts that the runner measures under its own names are exposed under the public names."""
    seconds = {"plan": 0.01, "job": 0.3, "task_process": 0.2, "task_delta": 0.02, "record": 0.03, "total": 0.4}
    found = families(Observed(), Measured(Epoch(0), seconds=seconds))
    for part, sum_seconds in (("route", 0.01), ("state", 0.2), ("delta", 0.02), ("commit", 0.03)):
        assert value(found, "epoch_duration_seconds", "_sum", part=part) == pytest.approx(sum_seconds)


def test_record_latency_is_from_arrival_to_commit() -> None:
    """Records of an epoch arrive during the previous one: they wait for their own epoch, and for part of that one."""
    first, second = Measured(Epoch(0), seconds={"total": 1.0}), Measured(Epoch(1), seconds={"total": 0.5})
    assert arrivals(None, first) == (1.0, 1.0)
    assert arrivals(first, second) == (0.5, 1.5)
    found = families(Observed(), first, second)
    assert value(found, "record_latency_seconds", "_bucket", moving="false", le="1.0") == 10 + 5
    assert value(found, "record_latency_seconds", "_sum", moving="false") == pytest.approx(10 * 1.0 + 10 * 1.0)


def test_latency_during_a_migration_is_told_apart() -> None:
    """Records of epochs during a migration are counted separately, and these counters exist before the first migration."""
    calm, moving = Measured(Epoch(0)), Measured(Epoch(1), rows_in=7, moving=True)
    before, after = families(Observed(), calm), families(Observed(), calm, moving)
    counts = [
        [value(found, "record_latency_seconds", "_count", moving=each) for each in ("false", "true")]
        for found in (before, after)
    ]
    assert counts == [[10, 0], [10, 7]]


def test_latency_weighs_records_and_not_aggregated_rows() -> None:
    """1,000 records that the JVM has reduced to ten rows count as 1,000; both numbers are exposed, each under its name."""
    found = families(Observed(), Measured(Epoch(0), rows_in=10, behind=1000))
    assert value(found, "record_latency_seconds", "_count", moving="false") == 1000
    assert value(found, "source_rows", "_total") == 1000
    assert value(found, "input_rows", "_total") == 10


def test_failed_runs_count_before_their_epoch_is_recorded() -> None:
    """The failures of an epoch are exposed while it is failing, not only after its end."""
    assert value(families(EVERYTHING), "recoveries", "_total") == 2


def test_a_spread_counts_everything_once() -> None:
    """Whatever the span, buckets only grow, and the last one has every observation."""
    spread = BatchHistogram()
    for low, high, count in ((0.0, 0.0, 3), (0.05, 0.05, 1), (0.1, 400.0, 1000), (500.0, 900.0, 7)):
        spread.add(low, high, count)
    assert spread.cumulative == sorted(spread.cumulative)
    assert spread.cumulative[-1] == 1011
    assert spread.cumulative[0] == 4


def test_two_queries_do_not_share_a_registry() -> None:
    """A second query in the same registry is rejected, because its metrics would be added to the first one's."""
    registry = CollectorRegistry()
    RuntimeMetrics(registry, list, Observed)
    with pytest.raises(ValueError, match="Duplicated"):
        RuntimeMetrics(registry, list, Observed)
