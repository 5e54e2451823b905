"""Reconciles the schedule of one dataflow: creates its periodic snapshots, and removes the ones that are no longer kept.

It is called when a slot is due, after an edit of the dataflow, when a periodic snapshot has ended, and at the start of the operator, and
reads all it needs each time. A snapshot of a slot has the slot's name, so a crash never makes two. The files go before the object: after
a crash in between, the object is still there to remove the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from binshift_operator import events, status_codec
from binshift_operator.decide.snapshot_schedule import SchedulePlan, plan_schedule
from binshift_operator.driver_access import DriverAccess
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Changed, Forbidden, NotThere, OperatorError, Refused, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.names import SNAPSHOT_KIND, DataflowKey
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase
from binshift_operator.model.specification import Dataflow, read
from binshift_operator.reconcile import Result
from binshift_operator.served import find_served
from binshift_operator.snapshot_codec import parse_snapshot, periodic_labels, periodic_manifest
from binshift_operator.status import EventRecord
from binshift_operator.status_codec import parse_time

log = logging.getLogger(__name__)
RETRY_SECONDS: Final = 60.0
"""Until the first epoch is awaited again, or files are requested to be removed again by a driver that did not answer."""
REMOVALS_MAX: Final = 10
"""In one reconciliation."""


def has_schedule(manifest: Mapping[str, Any]) -> bool:
    """Whether a dataflow, as read from the API server, has a schedule that is in force."""
    spec = manifest.get("spec") or {}
    return bool(spec.get("snapshots")) and not spec.get("suspend")


@dataclass(frozen=True, slots=True)
class ScheduleReconciler:
    """Reconciles schedules.

    Attributes:
        kube: the API server.
        drivers: leads to the driver of a dataflow.
        clock: seconds since 1970.
        selector: label selector of the dataflows to reconcile; empty: all.
    """

    kube: Kube
    drivers: DriverAccess
    clock: Callable[[], float]
    selector: str = ""

    def reconcile(self, namespace: str, name: str) -> Result:
        """Reconcile the schedule of a dataflow once; without a result, the next edit of the dataflow is awaited.

        Raises:
            OperatorError: the API server does not answer, or rejects a request; reconcile again later.
        """
        found = find_served(self.kube, self.selector, namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"] or not has_schedule(found):
            return Result()
        dataflow = read(found)  # without a schedule if it is invalid: its status reports the error
        before = status_codec.decode(found.get("status") or {})
        if (
            dataflow.snapshots is None
            or dataflow.paused
            or before.has_finished(dataflow.generation, dataflow.restart_hash)
        ):
            return Result()
        if before.epoch_stats.epoch is None:
            return Result(RETRY_SECONDS)  # there is no state yet
        labels = ",".join(f"{label}={value}" for label, value in periodic_labels(name).items())
        snapshots = map(parse_snapshot, self.kube.list(SNAPSHOT_KIND, namespace, labels))
        plan = plan_schedule(dataflow.snapshots, (each for each in snapshots if each.periodic), self.clock())
        if plan.slot is not None:
            self._create(dataflow.key, plan.slot)
        again = self._remove(dataflow, plan, plan.next_slot - dataflow.snapshots.every_seconds)
        until_next = max(0.0, plan.next_slot - self.clock())
        return Result(min(until_next, RETRY_SECONDS) if again else until_next)

    def _create(self, key: DataflowKey, slot: float) -> None:
        manifest = periodic_manifest(key, slot)
        try:
            self.kube.create(manifest)
        except Changed:
            log.info("snapshot %s/%s exists already", key.namespace, manifest["metadata"]["name"])

    def _remove(self, dataflow: Dataflow, plan: SchedulePlan, slot: float) -> bool:
        """Remove snapshots, files first; whether more can be removed soon. One that cannot be removed blocks no other one."""
        if not plan.remove:
            return False
        client = self.drivers.client(dataflow.key)
        if isinstance(client, str):
            log.info("snapshots are not removed yet: %s", client, extra={"dataflow": dataflow.key.name})
            return True
        removed, waiting = 0, False
        for each in plan.remove:
            if removed == REMOVALS_MAX:
                return True
            key = each.key
            self.kube.require_leadership()
            try:
                _remove_files(client, dataflow, each)
            except (Forbidden, NotThere, Unreachable) as error:
                log.info("a snapshot is not removed yet: %s", error, extra={"snapshot": f"{key.namespace}/{key.name}"})
                if not isinstance(error, Unreachable) or not _answers(client):
                    return True
                waiting = True
                continue
            except Refused as error:
                if each.status.phase is SnapshotPhase.COMPLETE:
                    self._report(each, str(error), slot)
                    continue
            self.kube.delete(SNAPSHOT_KIND, key.namespace, key.name, key.uid)
            removed += 1
        return waiting

    def _report(self, snapshot: Snapshot, error: str, slot: float) -> None:
        """Once in a slot."""
        key = snapshot.key
        message = f"it is no longer kept, and its files at {snapshot.status.location} are not removed: {error}"
        record = EventRecord("SnapshotNotRemoved", message, warning=True)
        name = events.event_manifest(key, record, self.clock())["metadata"]["name"]
        known = self.kube.get("Event", key.namespace, name)
        if known is None or parse_time(known["lastTimestamp"]) < slot:
            events.record(self.kube, key, [record], self.clock())


def _remove_files(client: DriverClient, dataflow: Dataflow, snapshot: Snapshot) -> None:
    """Have the driver remove the files; it does not have the volume of another claim, and would find none there.

    Raises:
        OperatorError: they are not removed; as the control API.
    """
    status, claim = snapshot.status, dataflow.checkpoint.claim
    if not status.location:
        return
    if status.claim and status.claim != claim:
        raise Refused(
            f"they are on PersistentVolumeClaim {status.claim}, and the driver has {claim or 'none'}: remove them yourself, then delete "
            "this object"
        )
    client.delete_snapshot(snapshot.key.name, status.location)


def _answers(client: DriverClient) -> bool:
    """Whether the driver answers, so that an error was one of a location."""
    try:
        client.dataflow()
    except OperatorError:
        return False
    return True
