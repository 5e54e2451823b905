"""Metrics of a program with any number of queries.

Each query has its own counters and histograms. With one query they are those of `RuntimeMetrics`; while there are several,
each sample has the additional label ``query``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Sample

from binshift.control.services import ControlService
from binshift.metrics import RuntimeMetrics
from binshift.metrics.measured import Observed

LABEL = "query"


class ProgramMetrics(Collector):
    """The metrics of all queries of a program.

    Args:
        registry: the metrics are registered there.
        queries: the queries by name.
    """

    def __init__(self, registry: CollectorRegistry, queries: Callable[[], Mapping[str, ControlService]]) -> None:
        self._queries = queries
        self._each: list[tuple[ControlService, RuntimeMetrics]] = []
        self._lock = threading.Lock()
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Every metric, without values."""
        return RuntimeMetrics(CollectorRegistry(), list, Observed).describe()

    def collect(self) -> Iterable[Metric]:
        """The known values of every query."""
        queries = self._queries()
        with self._lock:
            self._each = [(query, self._of(query)) for query in queries.values()]
            found = {name: list(self._of(query).collect()) for name, query in queries.items()}
        if len(found) == 1:
            return next(iter(found.values()))
        merged: dict[str, Metric] = {}
        for name, metrics in found.items():
            for metric in metrics:
                family = merged.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type, metric.unit)
                )
                family.samples += [_labelled(sample, name) for sample in metric.samples]
        return merged.values()

    def _of(self, query: ControlService) -> RuntimeMetrics:
        known = next((metrics for each, metrics in self._each if each is query), None)
        return known or RuntimeMetrics(CollectorRegistry(), query.epochs, query.observed)


def _labelled(sample: Sample, query: str) -> Sample:
    return sample._replace(labels={LABEL: query, **sample.labels})
