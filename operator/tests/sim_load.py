"""A simulated cluster whose stream has a load: rows arrive, executors that hold bins take them, and the others wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim_cluster import NAME, NS, SimCluster

FIXED, PER_ROW, BOUND_SECONDS = 0.1, 0.001, 2.0
"""Seconds of an epoch that rows do not change; seconds of an executor for a row; how long an epoch takes at most."""
QUICK: dict[str, Any] = {"stabilization": "60s"}


class LoadedCluster(SimCluster):
    """A cluster with a load that a test can change.

    Attributes:
        rate: rows per second that arrive; None: the driver is too old to report its load.
        backlog: rows that wait.
        hottest: the share of the rows that one bin gets, whose hot key is ``key``.
        hot_keys: as the driver reports them.
        skew: the busiest executor's part over the mean, and what that becomes with a rebalance or another target; None: not measured.
    """

    rate: float | None = 500.0
    hottest = 0.0
    skew: tuple[float, float] | None = None
    key = ""
    hot_keys: tuple[dict[str, Any], ...] = ()
    backlog = 0.0
    measured = 0
    _balanced = 0

    def edit(self, **spec: Any) -> None:
        """See `SimCluster`; the operator watches it."""
        super().edit(**spec)
        self.reconciler.invalidate(NS, NAME)

    def tick(self, ticks: int = 1) -> None:
        """See `SimCluster`; the load changes after each tick."""
        for _ in range(ticks):
            super().tick()
            for query in self.queries.values():
                if self.skew is not None and query.migrations != self._balanced and self.log.settled:
                    self.skew = self.skew[1], self.skew[1]
                self._balanced = query.migrations
                load = None if self.rate is None else self._load(max(1, len(self.log.holding)), self.rate)
                query.figures = {"load": load, "hotKeys": list(self.hot_keys)}

    def _load(self, workers: int, rate: float) -> dict[str, Any]:
        per_row = PER_ROW * (1.0 if self.skew is None else self.skew[0])
        capacity = min(workers, 1 / (self.hottest or 1e-9)) * (1 - FIXED / BOUND_SECONDS) / per_row
        self.backlog = max(0.0, self.backlog + rate - capacity)
        self.measured += 1
        busy, late = rate * per_row / workers, self.backlog > 0
        return {
            "at": self.now,
            "epochsMeasured": self.measured,
            "fixedSeconds": FIXED,
            "secondsPerRow": per_row,
            "certain": True,
            "arrivingRowsPerSecond": rate,
            "backlogRows": int(self.backlog),
            "boundRows": int(capacity * BOUND_SECONDS),
            "atBound": late,
            "epochSeconds": BOUND_SECONDS if late else FIXED / (1 - min(busy, 0.94)),
            "workers": workers,
            **({} if self.skew is None else {"skew": self.skew[0], "skewRebalanced": self.skew[1]}),
            **({"hottestBinShare": self.hottest, "hottestBinKey": self.key} if self.hottest else {}),
        }

    def until(self, reached: Callable[[], bool], ticks: int = 200) -> None:
        """Time passes until something holds."""
        for _ in range(ticks):
            if reached():
                return
            self.run(1)
        raise AssertionError(f"it was not reached: {self.status}")

    @property
    def holding(self) -> int:
        """Executors that hold bins, once they are settled; 0 while bins move."""
        return len(self.log.holding) if self.log.settled else 0

    @property
    def scaling(self) -> dict[str, Any]:
        """What autoscaling has decided."""
        found: dict[str, Any] = self.status["autoscaling"]
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition; empty without one."""
        found = [each for each in self.status["conditions"] if each["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def started(replicas: int = 1, **autoscaling: Any) -> LoadedCluster:
    """A dataflow with autoscaling that has come up."""
    cluster = LoadedCluster()
    cluster.start(replicas)
    cluster.converge()
    cluster.edit(autoscaling={"mode": "Auto", "maxReplicas": 8, "scaleDown": QUICK, **autoscaling})
    return cluster
