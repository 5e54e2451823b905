"""Which process of the operator acts: the one that holds the Lease in the operator's own namespace.

The others watch and wait, so that an upgrade or a lost node never has two act at one time. A holder that cannot renew stops acting
before anybody else may take the Lease. Each process measures with its own clock how long a Lease has not changed, so that clocks of
two nodes need not agree. One write that was on its way when a Lease ran out may still arrive: it carries the version that it was decided
upon, and the API server refuses it if that has changed.
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
"""A Lease that has not changed for so long may be taken."""
RENEW_DEADLINE_SECONDS: Final = 20.0
"""How long after a renewal was asked for its holder acts upon it."""
RETRY_PERIOD_SECONDS: Final = 5.0
"""From one try to take or renew it to the next."""
KIND: Final = "Lease"


@dataclass
class AlwaysLeader:
    """Instead of a Lease, where somebody else sees to it that there is one process only: it always acts.

    Attributes:
        on_change: called once, that it does.
    """

    on_change: Callable[[bool], None] = lambda held: None

    def is_leader(self) -> bool:
        """Whether this process may act."""
        return True

    def start(self) -> None:
        """Begin."""
        self.on_change(True)

    def stop(self) -> None:
        """End."""


@dataclass
class LeaderElector:
    """Takes, renews and gives back one Lease.

    Attributes:
        kube: the API server; not the one whose writes wait for the Lease.
        namespace: of the Lease.
        name: of the Lease.
        identity: who this process is; unlike every other one's.
        clock: seconds, that only go forward.
        wall_clock: seconds since 1970, for people who read the Lease.
        on_change: called with whether the Lease is held, whenever that has changed.
    """

    kube: Kube
    namespace: str
    name: str
    identity: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    on_change: Callable[[bool], None] = lambda held: None
    _until: float = float("-inf")
    _seen: tuple[str, float] = ("", 0.0)
    _was_held: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def is_leader(self) -> bool:
        """Whether this process may act now. Called from any thread."""
        return self.clock() < self._until

    def start(self) -> None:
        """Try for it on a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End, and give the Lease back, so that the next process need not wait; call it once nothing acts any more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(seconds)
        if self.is_leader():
            self._give_back()

    def try_acquire_or_renew(self) -> None:
        """Take or renew it, if that can be."""
        try:
            self._step()
        except Changed:
            pass  # another process was faster
        except OperatorError as error:
            log.warning("lease %s/%s cannot be taken or renewed: %s", self.namespace, self.name, error)
        if self.is_leader() != self._was_held:
            self._was_held = not self._was_held
            log.info("lease %s/%s is %s", self.namespace, self.name, "held" if self._was_held else "not held any more")
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
        """Whether it is this process's, nobody's, or one that its holder has not renewed in time."""
        meta, spec = found["metadata"], found.get("spec") or {}
        if meta["resourceVersion"] != self._seen[0]:
            self._seen = meta["resourceVersion"], now
        if (spec.get("holderIdentity") or self.identity) == self.identity:
            return True
        self._until = float("-inf")
        return now - self._seen[1] > float(spec.get("leaseDurationSeconds") or LEASE_DURATION_SECONDS)

    def _lease(self, found: Object | None) -> Object:
        """As it is to be: this process's, and unchanged since it was ``found``."""
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

    def _give_back(self) -> None:
        self._until = float("-inf")
        try:
            found = self.kube.get(KIND, self.namespace, self.name)
            if found is not None and (found.get("spec") or {}).get("holderIdentity") == self.identity:
                lease = self._lease(found)
                del lease["spec"]["holderIdentity"]
                self.kube.apply(lease)
        except OperatorError as error:
            log.info("lease %s/%s was not given back: %s", self.namespace, self.name, error)

    def _work(self) -> None:
        while not self._ended.is_set():
            self.try_acquire_or_renew()
            self._ended.wait(RETRY_PERIOD_SECONDS)
