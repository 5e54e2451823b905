"""The skew of a query's workers, for its load: computed when records were counted or bins have moved, not for each request."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from binshift.engine.target_controller import TargetController
from binshift.log.records.weights import rounded
from binshift.model import Worker
from binshift.planner import SLACK, balanced_route
from binshift.routing import Route
from binshift.skew import SKEWED, Skew, skew_of


@dataclass
class SkewFigures:
    """The newest skew; any thread may read it.

    Attributes:
        targets: of the query.
    """

    targets: TargetController
    _known: tuple[object, Route, tuple[Worker, ...], Skew] | None = field(default=None)

    def newest(self, reaching: float = 1.0) -> Skew | None:
        """How uneven the workers' loads are, and would be after a rebalance; None while too few records were counted.

        ``reaching``: rows behind the exchange, per row of the source. All workers read, filter and reduce rows, whatever bins they have.
        """
        found = self._of_bins()
        return found and Skew(1 + reaching * (found.now - 1), 1 + reaching * (found.balanced - 1))

    def _of_bins(self) -> Skew | None:
        counts = self.targets.coordinator.migrations.bin_records.counts  # it is only ever replaced
        route, workers, known = self.targets.log.index.route, self.targets.effective, self._known
        if route is None or not workers or not counts.any():
            return None
        if known is not None and known[0] is counts and known[1:3] == (route, workers):
            return known[3]
        found = self._of(route, workers, counts)
        self._known = counts, route, workers, found
        return found

    def _of(self, route: Route, workers: tuple[Worker, ...], counts: npt.NDArray[np.float64]) -> Skew:
        """To plan a rebalance takes longer, so that it is left out where the workers are even."""
        now = round(skew_of(route, workers, counts), 3)
        weights = rounded(self.targets.coordinator.bin_weights()) if now > SKEWED else None
        if weights is None:
            return Skew(now, now)
        return Skew(now, round(skew_of(balanced_route(route, workers, weights, SLACK), workers, counts), 3))
