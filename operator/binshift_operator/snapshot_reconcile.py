"""Reconciles one StreamingDataflowSnapshot: the driver of its dataflow makes the copy, and this publishes how far it is.

Nothing is kept between two reconciliations. The location is in the status before the driver gets the request to write there, so an edit of the
dataflow in between changes nothing. A snapshot that is complete or has failed is never touched again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from binshift_operator import events
from binshift_operator.decide import snapshots as decide
from binshift_operator.driver_access import DriverAccess
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Changed, Forbidden, NotThere, Refused, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.names import SNAPSHOT_KIND
from binshift_operator.model.snapshots import ObservedSnapshot, Snapshot, SnapshotPhase, SnapshotReason, SnapshotStatus
from binshift_operator.model.specification import Dataflow, read
from binshift_operator.reconcile import Result
from binshift_operator.served import find_served
from binshift_operator.snapshot_codec import encode, parse_snapshot
from binshift_operator.status_writer import apply_status

log = logging.getLogger(__name__)
TOO_OLD = "the version of binshift in the driver's image has no snapshots: build the image again"


@dataclass(frozen=True, slots=True)
class SnapshotReconciler:
    """Reconciles snapshots.

    Attributes:
        kube: the API server.
        drivers: leads to the driver of a dataflow.
        clock: seconds since 1970.
        selector: label selector of the dataflows whose snapshots are reconciled; empty: all.
        on_end: called with the namespace and the dataflow's name when a periodic snapshot has ended.
    """

    kube: Kube
    drivers: DriverAccess
    clock: Callable[[], float]
    selector: str = ""
    on_end: Callable[[tuple[str, str]], None] = lambda key: None

    def reconcile(self, namespace: str, name: str) -> Result:
        """Reconcile a snapshot once.

        Raises:
            OperatorError: the API server does not answer, or rejects a request; reconcile again later.
        """
        found = self.kube.get(SNAPSHOT_KIND, namespace, name)
        snapshot = None if found is None else parse_snapshot(found)
        if found is None or snapshot is None or snapshot.deleting or snapshot.status.is_final:
            return Result()
        dataflow = self._dataflow(snapshot)
        if dataflow is None and self.selector:  # another operator serves it, or reports that it does not exist
            return Result(decide.PENDING_SECONDS_MAX)
        status = decide.locate(snapshot, dataflow)
        if dataflow is not None and status.location:
            if status.location != snapshot.status.location:
                found = self._publish(found, snapshot, status)
            status = self._advance(snapshot, status, dataflow)
        self._publish(found, snapshot, status)
        if status.is_final:
            if snapshot.periodic:
                self.on_end((namespace, snapshot.dataflow))
            return Result()
        return Result(decide.seconds_to_next_check(snapshot, status, self.clock()))

    def _dataflow(self, snapshot: Snapshot) -> Dataflow | None:
        found = find_served(self.kube, self.selector, snapshot.key.namespace, snapshot.dataflow)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        return read(found)

    def _advance(self, snapshot: Snapshot, status: SnapshotStatus, dataflow: Dataflow) -> SnapshotStatus:
        """Request the copy from the driver, or how far it is."""
        client = self.drivers.client(dataflow.key)
        if isinstance(client, str):
            return decide.wait_for_driver(status, dataflow, client)
        self.kube.require_leadership()
        try:
            report = _request(client, snapshot.key.name, status)
        except (Forbidden, Unreachable) as error:
            return decide.wait_for_driver(status, dataflow, f"{client.url}: {error}")
        except NotThere:
            return decide.wait(status, SnapshotReason.NOT_SUPPORTED, TOO_OLD)
        except Refused as error:
            return decide.refuse(status, str(error), self.clock())
        return decide.follow(snapshot, status, report, self.clock())

    def _publish(self, found: dict[str, object], snapshot: Snapshot, status: SnapshotStatus) -> dict[str, object]:
        """Events first, then the status, and only if it has changed; the object as published."""
        content = encode(snapshot, status)
        if content == found.get("status"):
            return found
        key = snapshot.key
        events.record(self.kube, key, decide.snapshot_events(snapshot.status, status), self.clock())
        try:
            apply_status(self.kube, key, content)
        except (Changed, NotThere):
            log.info("snapshot %s/%s was deleted meanwhile", key.namespace, key.name)
        return {**found, "status": content}


def _request(client: DriverClient, name: str, status: SnapshotStatus) -> ObservedSnapshot:
    """Read how far a copy is that was seen to run; otherwise, or if a restarted driver does not know it, request it."""
    if status.phase is SnapshotPhase.COPYING:
        try:
            return client.snapshot(name)
        except NotThere:
            pass
    return client.put_snapshot(name, status.location)
