"""Every metric of the runtime, declared once; a registry is passed in.

Nothing is pushed from the epoch's path. When Prometheus scrapes, a collector reads the epochs measured since the previous
scrape, which it adds to counters and histograms, and an `Observed`, the current state of the query. An unknown value (None) is
omitted, since 0 would be wrong.

Names start with `PREFIX`, are in base units and end with the unit. Labels are closed sets: a part of an epoch, a phase, a
state, an operator, a worker's slot, whether a migration is under way. Never a key or a bin. This module must not know Spark or
the control API: they are above it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from binshift.engine.timings import EpochTimings, StateFigures
from binshift.metrics.declared import DECLARED, Declared
from binshift.metrics.measured import Observed, arrivals

__all__ = ["DECLARED", "EPOCH_PARTS", "PREFIX", "Observed", "RuntimeMetrics"]

PREFIX: Final = "binshift_"

EPOCH_PARTS: Final[Mapping[str, str]] = {
    "source": "source",
    "plan": "route",
    "job": "job",
    "task_bring_up": "bring_up",
    "task_process": "state",
    "task_delta": "delta",
    "task_commit": "store",
    "record": "commit",
    "sink": "sink",
    "total": "total",
}
"""How `EpochTimings.seconds` names a part -> how the metric does. ``job`` is the whole Spark job: the source, the state's
parts (each of the slowest worker) and the sink overlap in it. Other parts are not counted."""


SECONDS_BUCKETS: Final = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of every histogram here, in seconds: fine for a calm epoch, coarse for epochs that are slow anyway."""


class BatchHistogram:
    """A histogram that takes many observations at once.

    >>> spread = BatchHistogram((1.0, 2.0))
    >>> spread.add(0.5, 2.5, count=4)
    >>> spread.cumulative, spread.sum
    ([1, 3, 4], 6.0)
    """

    def __init__(self, bounds: Sequence[float] = SECONDS_BUCKETS) -> None:
        self.bounds = tuple(bounds)
        self.cumulative = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, low: float, high: float, count: int = 1) -> None:
        """``count`` observations, evenly from ``low`` to ``high``."""
        for at, bound in enumerate(self.bounds):
            share = (bound - low) / (high - low) if high > low else float(low <= bound)
            self.cumulative[at] += round(count * min(1.0, max(0.0, share)))
        self.cumulative[-1] += count
        self.sum += count * (low + high) / 2

    def buckets(self) -> list[tuple[str, float]]:
        """As the exposition wants them."""
        return list(zip([*map(str, self.bounds), "+Inf"], map(float, self.cumulative), strict=True))


class RuntimeMetrics(Collector):
    """All metrics of one query.

    Args:
        registry: the metrics are registered there.
        epochs: the newest epochs, ascending; Prometheus must scrape before they are dropped.
        observe: the current state.

    Raises:
        ValueError: the registry already has metrics of another query.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        epochs: Callable[[], Sequence[EpochTimings]],
        observe: Callable[[], Observed],
    ) -> None:
        self._epochs, self._observe = epochs, observe
        self._lock = threading.Lock()
        self._newest: EpochTimings | None = None
        # Both from the first scrape on: when a counter first appears, its increase up to then is not visible.
        self._latency = {moving: BatchHistogram() for moving in (False, True)}
        self._flip = BatchHistogram()
        self._parts = {part: BatchHistogram() for part in EPOCH_PARTS.values()}
        self._counts = dict.fromkeys(_COUNTED, 0.0)
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Every metric, without values."""
        yield from (_family(each) for each in DECLARED)
        yield from (CounterMetricFamily(PREFIX + name, help) for name, (help, _) in _COUNTED.items())
        yield from (GaugeMetricFamily(PREFIX + name, help) for name, (help, _) in _STORED.items())
        yield from (HistogramMetricFamily(PREFIX + name, help) for name, (help, _) in _SPREAD.items())

    def collect(self) -> Iterable[Metric]:
        """Catch up with the epochs, then return all known metrics."""
        with self._lock:
            for epoch in self._epochs():
                self._add(epoch)
            return [*self._observed(self._observe()), *self._measured()]

    def _add(self, epoch: EpochTimings) -> None:
        if self._newest is not None and epoch.epoch <= self._newest.epoch:
            return
        self._latency[epoch.moving].add(*arrivals(self._newest, epoch), count=epoch.records_in)
        for part, seconds in epoch.seconds.items():
            if part in EPOCH_PARTS:
                self._parts[EPOCH_PARTS[part]].add(seconds, seconds)
        if epoch.moved:
            total = epoch.seconds.get("total", 0.0)
            self._flip.add(total, total)
        for name, (_, read) in _COUNTED.items():
            self._counts[name] += read(epoch)
        self._newest = epoch

    def _observed(self, observed: Observed) -> Iterator[Metric]:
        for each in DECLARED:
            value, family = each.read(observed), _family(each)
            if isinstance(value, Mapping):
                for label, one in value.items():
                    family.add_metric([label], one)
            elif value is not None:
                family.add_metric([], value)
            if family.samples:
                yield family

    def _measured(self) -> Iterator[Metric]:
        for name, (help, _) in _COUNTED.items():
            yield CounterMetricFamily(PREFIX + name, help, value=self._counts[name])
        if self._newest is not None and self._newest.operators:
            for name, (help, read) in _STORED.items():
                yield GaugeMetricFamily(PREFIX + name, help, value=sum(map(read, self._newest.operators)))
        parts: Mapping[tuple[str, ...], BatchHistogram] = {
            (part,): spread for part, spread in self._parts.items() if spread.cumulative[-1]
        }
        latency: Mapping[tuple[str, ...], BatchHistogram]
        latency = {(str(moving).lower(),): spread for moving, spread in self._latency.items()}
        spreads: tuple[Mapping[tuple[str, ...], BatchHistogram], ...] = (latency, parts, {(): self._flip})
        for (name, (help, labels)), by_label in zip(_SPREAD.items(), spreads, strict=True):
            family = HistogramMetricFamily(PREFIX + name, help, labels=labels)
            for label, spread in by_label.items():
                family.add_metric(list(label), spread.buckets(), spread.sum)
            yield family


_COUNTED: Final[Mapping[str, tuple[str, Callable[[EpochTimings], float]]]] = {
    "input_rows": ("Rows that reached the stateful operators, after the JVM's own aggregation.", lambda e: e.rows_in),
    "source_rows": (
        "Records in those rows, before aggregation in the JVM, including late ones.",
        lambda e: e.records_in,
    ),
    "output_rows": ("Rows emitted by the stateful operators.", lambda e: e.rows_out),
    "late_rows": ("Rows dropped because of the watermark.", lambda e: sum(o.rows_late for o in e.operators)),
    "moved_bins": ("Bins that changed owner.", lambda e: e.moved),
    "cold_bring_up_bins": ("Bins loaded inside an epoch.", lambda e: sum(o.brought_up for o in e.operators)),
}
_STORED: Final[Mapping[str, tuple[str, Callable[[StateFigures], float]]]] = {
    "stored_rows": ("Rows in all local stores, copies included.", lambda o: o.rows_stored),
    "stored_bytes": ("Size of all local stores, copies included.", lambda o: o.bytes_stored),
}
_SPREAD: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "record_latency_seconds": (
        "Time from a record's arrival to the commit of its epoch, by whether a migration is running.",
        ("moving",),
    ),
    "epoch_duration_seconds": ("Time spent in each part of an epoch.", ("part",)),
    "flip_duration_seconds": ("Duration of the epochs in which bins changed owner.", ()),
}


def _family(declared: Declared) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if declared.counts else GaugeMetricFamily
    return kind(PREFIX + declared.name, declared.help, labels=None if declared.label is None else [declared.label])
