"""A simulated cluster whose driver makes snapshots, with the operator's controllers of snapshots and schedules on their own queues.

No object of a complete snapshot may be removed while its files are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, SimCluster
from sim_control import SimControl
from sim_copies import Copies, SnapshotControl
from sim_server import Crash, stamp

from binshift_operator.children import hash_keys, read_keys
from binshift_operator.controller import Controller
from binshift_operator.driver_access import DriverAccess
from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import KIND, SNAPSHOT_KIND
from binshift_operator.snapshot_codec import is_unfinished
from binshift_operator.snapshot_reconcile import SnapshotReconciler
from binshift_operator.snapshot_schedules import ScheduleReconciler, has_schedule
from binshift_operator.work_queue import WorkQueue

RESYNC_SECONDS = 300


class SnapshotCluster(SimCluster):
    """A cluster whose operator serves snapshots, too.

    Attributes:
        down: whether no operator runs.
        selector: of the operator.
    """

    down = False
    selector = ""

    def __post_init__(self) -> None:
        """See `SimCluster`."""
        self.copies = Copies(lambda: self.now)
        self.listed_at = 0.0
        super().__post_init__()
        self.server.webhook = self._stamp

    def _stamp(self, kind: str, found: dict[str, Any]) -> None:
        if kind == SNAPSHOT_KIND:
            found["metadata"].setdefault("creationTimestamp", stamp(self.now))

    def _connected(self, address: str, token: str, *_: Any) -> SimControl:
        found = read_keys(self.server.objects.get(("Secret", NS, f"{NAME}-keys"), {}))
        keys = hash_keys(found) if found else ""
        client = SnapshotControl(token, self._query, self._driver_was_written_to, keys)
        object.__setattr__(client, "_copies", self.copies)
        return client

    def _told(self, kind: str) -> None:
        super()._told(kind)
        if kind == SNAPSHOT_KIND and not self.deaf:
            self.snapshots.queue.add_missing(self.snapshots._list_now())

    def restart_operator(self) -> None:
        """See `SimCluster`."""
        super().restart_operator()
        kube, metrics = Kube(self.server), OperatorMetrics(CollectorRegistry())
        drivers, queue = DriverAccess(kube, lambda *_: "", self._connected), WorkQueue(lambda: self.now)
        schedules = ScheduleReconciler(kube, drivers, lambda: self.now, self.selector)
        snapshots = SnapshotReconciler(kube, drivers, lambda: self.now, self.selector, queue.add)
        own = WorkQueue(lambda: self.now)
        common = (kube, metrics, (), RESYNC_SECONDS, 1)
        self.snapshots = Lister(
            own, snapshots.reconcile, *common, "", kind=SNAPSHOT_KIND, noun="snapshot", is_due=is_unfinished
        )
        self.schedules = Lister(queue, schedules.reconcile, *common, self.selector, kind=KIND, is_due=has_schedule)
        self.snapshots.server = self.schedules.server = self.server
        self.listed_at = 0.0

    def edit(self, **spec: Any) -> None:
        """See `SimCluster`; the operator watches it."""
        super().edit(**spec)
        self.reconciler.invalidate(NS, NAME)
        if has_schedule(self.dataflow) and not self.deaf:
            self.schedules.queue.add((NS, NAME))

    # ------------------------------------------------------------------------------------------------------ what happens

    def work(self) -> None:
        """The controllers of snapshots and schedules do all that is due now; after a crash, a new process does."""
        if self.down:
            return
        if self.now - self.listed_at >= RESYNC_SECONDS and not self.server.down:
            self.listed_at = self.now
            for each in (self.snapshots, self.schedules):
                each.queue.add_missing(each._list_now())
        for _ in range(100):
            try:
                if not any(each.process_due() for each in (self.snapshots, self.schedules)):
                    return
            except Crash:
                self.restart_operator()
        raise AssertionError("the queues are never empty")

    def run(self, ticks: int) -> None:
        """See `SimCluster`."""
        for _ in range(ticks):
            if not self.down:
                self.reconcile()
            self.work()
            self.tick()

    def leap(self, seconds: float) -> None:
        """Time passes in which nothing happens but snapshots."""
        until = self.now + seconds
        while self.now < until:
            due = [at for each in (self.snapshots, self.schedules) for at in each.queue._due.values()]
            following = min([until, self.listed_at + RESYNC_SECONDS, *due])
            self.now = until if self.down else min(until, max(following, self.now + 1))
            self.work()
        self.check()

    def assert_may_go(self, pod: dict[str, Any]) -> None:
        """See `SimCluster`; the files of a snapshot go before it."""
        if pod["kind"] != SNAPSHOT_KIND:
            super().assert_may_go(pod)
        elif pod["status"]["phase"] == "Complete":
            assert pod["status"]["location"] not in self.copies.stored, "files are left without their object"

    def request(self, name: str, **spec: Any) -> None:
        """A user creates a snapshot."""
        meta = {"name": name, "namespace": NS}
        self.server.put(SNAPSHOT_KIND, {"kind": SNAPSHOT_KIND, "metadata": meta, "spec": {"dataflow": NAME, **spec}})

    def snapshot(self, name: str) -> dict[str, Any]:
        """The status of a snapshot; empty before the first."""
        return self.server.objects[SNAPSHOT_KIND, NS, name].get("status") or {}

    def phase(self, name: str) -> str:
        """The phase of a snapshot; empty without a status."""
        return str(self.snapshot(name).get("phase", ""))

    def names(self, phase: str = "") -> list[str]:
        """The names of the snapshots, or of the ones in a phase."""
        found = [name for kind, _, name in sorted(self.server.objects) if kind == SNAPSHOT_KIND]
        return [name for name in found if not phase or self.phase(name) == phase]

    def until(self, reached: Callable[[], bool], ticks: int = 100) -> None:
        """Time passes until something holds."""
        for _ in range(ticks):
            if reached():
                return
            self.run(1)
        raise AssertionError(f"it was not reached: {[self.snapshot(name) for name in self.names()]}")


class Lister(Controller):
    """A controller without threads, in which a mistake of the operator ends the test."""

    server: Any

    def _list_now(self) -> set[tuple[str, str]]:
        """What a watch shows, without a request."""
        found = self.server.listed(self.kind, None, self.selector)
        return {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in filter(self.is_due, found)}

    def process_due(self) -> bool:
        """Process one object that is due, if there is one."""
        key = self.queue.get(0)
        if key is None:
            return False
        try:
            result = self.reconcile(*key)
        except OperatorError as error:
            self.queue.add_rate_limited(key, getattr(error, "retry_after", 0.0))
        else:
            self.queue.forget(key, result.requeue_after)
        return True


def started(**spec: Any) -> SnapshotCluster:
    """A dataflow that has come up."""
    cluster = SnapshotCluster()
    cluster.start()
    cluster.edit(**spec)
    cluster.converge()
    return cluster
