"""A dataflow's runtime made up in memory: the log, which stays, and the driver's query, which comes and goes with its pod.

Bins are counted, not kept: worker -> how many. An epoch needs an executor for every worker that has bins; each moves at most
``STEP`` bins towards the target. Anything the operator must not do is an assertion in here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from binshift_operator.errors import Changed, NotThere, Unreachable

BINS = 16
STEP = 6
LOST_TICKS = 8


@dataclass
class Log:
    """What is durable: one checkpoint."""

    epoch: int = -1
    committed_at: str | None = None
    route: dict[int, int] = field(default_factory=dict)
    target: dict[str, Any] | None = None
    left: dict[int, int] = field(default_factory=dict)
    """Worker -> the epoch in which its last bin left it."""

    @property
    def newest_target(self) -> dict[str, Any]:
        """The target, which has been set."""
        assert self.target is not None
        return self.target

    @property
    def holding(self) -> set[int]:
        """Workers that own bins."""
        return {worker for worker, count in self.route.items() if count}

    def wanted(self) -> dict[int, int]:
        """The route that the target requests."""
        workers = sorted(self.target["workers"]) if self.target else sorted(self.holding)
        share, more = divmod(BINS, len(workers))
        return {worker: share + (place < more) for place, worker in enumerate(workers)}

    @property
    def settled(self) -> bool:
        """Whether bins are where the target wants them."""
        return self.target is not None and {w: n for w, n in self.route.items() if n} == self.wanted()


@dataclass
class Query:
    """The driver's process in one pod.

    Attributes:
        pod: the UID of its pod.
        keys: the fingerprint of the Secret it was started with.
        failing: why its program fails, if it does.
        ending: whether its program ends by itself once an epoch is committed.
        hanging: whether its next epoch does not end; ``hung``: for how many ticks.
        lasting: for how many ticks the epoch lasts in which it is asked to stop; ``stopping``: how many are left.
        stop_requests: how often a stop was requested.
        settings: that can change while it runs; None: it is too old to report them.
        rebalances: how often a rebalance was requested; ``unmeasured``: whether it is refused.
    """

    log: Log
    pod: str
    keys: str
    failing: str = ""
    ending: bool = False
    hanging: bool = False
    unmeasured: bool = False
    hung: int = 0
    lasting: int = 0
    stopping: int = 0
    stop_requests: int = 0
    state: str = "Loading"
    registered: set[int] = field(default_factory=set)
    migration: dict[str, Any] | None = None
    migrations: int = 0
    rebalances: int = 0
    away: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] | None = None

    @property
    def newest_migration(self) -> dict[str, Any]:
        """The newest migration, which exists."""
        assert self.migration is not None
        return self.migration

    def tick(self, registered: set[int]) -> None:
        """A moment passes."""
        self.registered = registered
        if self.state in ("Stopped", "Finished"):
            return
        if self.stopping:
            self.stopping -= 1
            self.state = "Running" if self.stopping else "Stopped"
            return
        if self.failing:
            self.state = "Failed"
            return
        if self.state in ("Loading", "Failed"):
            self.state = "Running"
            if self.log.target and self.log.route and not self.log.settled:
                self._begin(None)
            return
        if not registered:
            return
        if not self.log.route:
            self.log.route = {min(registered): BINS}
        self.hung = self.hung + 1 if self.hanging else 0
        if self.hanging:
            return
        before = self.log.epoch
        self._epoch()
        if self.ending and self.log.epoch > before:
            self.state = "Finished"

    def _epoch(self) -> None:
        missing = self.log.holding - self.registered
        self.away = self.away + 1 if missing else 0
        if missing and self.away < LOST_TICKS:
            return
        for worker in missing:
            heir = min(self.registered)
            self.log.route[heir] = self.log.route.get(heir, 0) + self.log.route.pop(worker)
        self.log.epoch += 1
        if self.log.target and not self.log.settled and (not self.migration or self.migration["phase"] == "settled"):
            self._begin(None)
        if self.migration and self.migration["phase"] == "copying":
            self._move()

    def _move(self) -> None:
        assert self.migration is not None
        wanted, route = self.log.wanted(), self.log.route
        if not set(wanted) <= self.registered:
            return
        for _ in range(STEP):
            over = [w for w in sorted(route) if route[w] > wanted.get(w, 0)]
            under = [w for w in sorted(wanted) if route.get(w, 0) < wanted[w]]
            if not over or not under:
                break
            route[over[0]] -= 1
            self.log.left[over[0]] = self.log.epoch
            route[under[0]] = route.get(under[0], 0) + 1
            self.migration["binsMoved"] += 1
        if self.log.settled:
            self.migration["phase"] = "settled"

    def _begin(self, generation: int | None) -> None:
        assert self.log.target is not None
        self.migrations += 1
        self.migration = {
            "id": self.migrations,
            "phase": "settled" if self.log.settled else "copying",
            "generation": generation,
            "workers": sorted(self.log.target["workers"]),
            "strategy": "Optimized",
            "reason": "",
            "binsMoved": 0,
            "binsTotal": BINS,
            "startedAt": None,
            "endedAt": None,
        }

    def answer(self, method: str, path: str, body: Any) -> Any:
        """What the control API answers."""
        if (method, path) == ("GET", "/v1/dataflow"):
            return self._shown()
        if (method, path) == ("POST", "/v1/stop"):
            self.stop_requests += 1
            self.stopping = self.stopping or self.lasting
            self.state = self.state if self.state in ("Finished", "Stopped") or self.stopping else "Stopped"
            return {}
        if (method, path) == ("PUT", "/v1/target"):
            return self._put(body)
        if (method, path) == ("PUT", "/v1/settings"):
            self.settings = body
            return body
        if (method, path) == ("POST", "/v1/rebalance"):
            return self._rebalance()
        cancel = re.fullmatch(r"/v1/migrations/(\d+)\?rollback=(true|false)", path)
        assert method == "DELETE"
        assert cancel, f"unexpected request {method} {path}"
        if self.migration is None or self.migration["id"] != int(cancel[1]):
            raise NotThere("no such migration")
        if self.migration["phase"] != "settled":
            self.migration |= {"phase": "cancelled", "reason": "cancelled on request"}
        return {}

    def _put(self, body: dict[str, Any]) -> Any:
        if self.state != "Running" or not self.log.route:
            raise Unreachable("no query yet")
        last = self.log.target
        if last is not None and last["owner"] == body["owner"]:
            if body["generation"] < last["generation"]:
                raise Changed("outdated")
            if body["generation"] == last["generation"]:
                if body != last:
                    raise Changed("another target of this generation")
                return {"migration": None}
        self.log.target = dict(body)
        self._begin(body["generation"])
        return {"migration": self.migration}

    def _rebalance(self) -> Any:
        self.rebalances += 1
        if self.unmeasured:
            raise Changed("no load of a bin has been measured yet")
        self._begin(self.log.newest_target["generation"])
        return {"migration": self.migration}

    def _shown(self) -> dict[str, Any]:
        log, target = self.log, self.log.target
        if self.state != "Running":
            loads = self.state == "Loading" and log.holding
            need = f"the query needs the workers that hold its bins: {sorted(log.holding)}" if loads else ""
            state = {"state": self.state, "reason": self.failing or need, "failures": int(bool(self.failing))}
            return {**state, "epoch": -1, "workers": sorted(log.holding) if loads else []}
        return {
            "state": "Running",
            "stopping": self.stopping > 0,
            "reason": "",
            "epoch": log.epoch,
            "committedAt": log.committed_at,
            "underWay": {"epoch": log.epoch + 1, "part": "job", "seconds": self.hung} if self.hanging else None,
            "routeVersion": 1 if log.route else None,
            "workers": sorted(log.holding),
            "registered": sorted(self.registered),
            "migration": self.migration,
            **self.figures,
            "settings": self.settings,
            "target": None if target is None else {**target, "settled": self._settled()},
        }

    def _settled(self) -> bool:
        moving = self.migration is not None and self.migration["phase"] != "settled"
        return self.log.settled and not moving
