"""Leader election: the process of the operator that holds the Lease in the operator's namespace is active.

The others watch and wait, so that two processes are never active at the same time, not even during an upgrade or after a lost node. A
holder that cannot renew stops before another process can take the Lease. Each process measures with its own clock how long the Lease has
not changed, so the clocks of two nodes need not agree. A write that was in flight when the Lease expired may still arrive: it carries the
version that it was decided upon, and the API server rejects it if that has changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from binshift_operator.errors import Changed, OperatorError
from binshift_operator.kube import Kube, Object

log = logging.getLogger(__name__)
LEASE_DURATION_SECONDS: Final = 30
"""A Lease that has not changed for this long can be taken."""
RENEW_DEADLINE_SECONDS: Final = 20.0
"""How long its holder relies on a renewal, from the request on."""
RETRY_PERIOD_SECONDS: Final = 5.0
"""Between two attempts to acquire or renew it."""
KIND: Final = "Lease"


@dataclass
class AlwaysLeader:
    """In place of an elector, where only one process of the operator is deployed.

    Attributes:
        on_change: called once with True.
    """

    on_change: Callable[[bool], None] = lambda is_leader: None

    def is_leader(self) -> bool:
        """Always True."""
        return True

    def start(self) -> None:
        """Report the leadership."""
        self.on_change(True)

    def stop(self) -> None:
        """Do nothing."""


@dataclass
class LeaderElector:
    """Acquires, renews and releases one Lease.

    Attributes:
        kube: the API server; not the client whose writes require the Lease.
        namespace, name: of the Lease.
        identity: the unique name of this process.
        clock: monotonic seconds.
        wall_clock: seconds since 1970, for readers of the Lease.
        on_change: called with whether this process is the leader, after each change.
    """

    kube: Kube
    namespace: str
    name: str
    identity: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    on_change: Callable[[bool], None] = lambda is_leader: None
    _until: float = float("-inf")
    _seen: tuple[str, float] = ("", 0.0)
    _was_held: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def is_leader(self) -> bool:
        """Whether this process is the leader now. Called from any thread."""
        return self.clock() < self._until

    def start(self) -> None:
        """Try to acquire and renew the Lease on a thread until `stop`."""
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Release the Lease, so that the next process need not wait; call it after the controller has stopped."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(seconds)
        if self.is_leader():
            self._release()

    def try_acquire_or_renew(self) -> None:
        """Acquire or renew the Lease, if possible."""
        try:
            self._step()
        except Changed:
            pass  # another process was faster
        except OperatorError as error:
            log.warning("lease %s/%s cannot be acquired or renewed: %s", self.namespace, self.name, error)
        if self.is_leader() != self._was_held:
            self._was_held = not self._was_held
            log.info("lease %s/%s is %s", self.namespace, self.name, "held" if self._was_held else "no longer held")
            self.on_change(self._was_held)

    def _step(self) -> None:
        began = self.clock()
        found = self.kube.get(KIND, self.namespace, self.name)
        if found is None:
            self.kube.create(self._lease(None))
        else:
            if not self._may_take(found, began):
                return
            self.kube.apply(self._lease(found))
        self._until = began + RENEW_DEADLINE_SECONDS

    def _may_take(self, found: Object, now: float) -> bool:
        """Whether the Lease is held by this process or by none, or was not renewed in time."""
        meta, spec = found["metadata"], found.get("spec") or {}
        if meta["resourceVersion"] != self._seen[0]:
            self._seen = meta["resourceVersion"], now
        if (spec.get("holderIdentity") or self.identity) == self.identity:
            return True
        self._until = float("-inf")
        return now - self._seen[1] > float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)

    def _lease(self, found: Object | None) -> Object:
        """The manifest of the Lease, held by this process; it requires that the Lease is unchanged since it was ``found``."""
        spec = (found or {}).get("spec") or {}
        mine = spec.get("holderIdentity") == self.identity
        moment = datetime.fromtimestamp(self.wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        known = {} if found is None else {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": KIND,
            "metadata": {"name": self.name, "namespace": self.namespace, **known},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": LEASE_DURATION_SECONDS,
                "acquireTime": spec["acquireTime"] if mine and "acquireTime" in spec else moment,
                "renewTime": moment,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (found is not None and not mine),
            },
        }

    def _release(self) -> None:
        self._until = float("-inf")
        try:
            found = self.kube.get(KIND, self.namespace, self.name)
            if found is not None and (found.get("spec") or {}).get("holderIdentity") == self.identity:
                lease = self._lease(found)
                del lease["spec"]["holderIdentity"]
                self.kube.apply(lease)
        except OperatorError as error:
            log.info("lease %s/%s was not released: %s", self.namespace, self.name, error)

    def _work(self) -> None:
        while not self._ended.is_set():
            self.try_acquire_or_renew()
            self._ended.wait(RETRY_PERIOD_SECONDS)
