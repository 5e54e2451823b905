"""A fake query behind the control API: records every write, and rejects writes on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.epoch_figures import Epochs, epochs_of
from binshift.control.models import (
    BinLoad,
    Bins,
    Copy,
    Dataflow,
    LiveSettings,
    Migration,
    State,
    Target,
    WorkerLoad,
    moment,
)
from binshift.control.placement import MovingBins, Placement
from binshift.control.requests import RebalanceRequest, SettingsRequest, TargetRequest
from binshift.control.savepoints import Snapshot
from binshift.control.service_holder import ServiceHolder
from binshift.control.services import ControlService
from binshift.engine.timings import EpochTimings
from binshift.errors import BinshiftError, DrainRefused, NoSuchMigration, NoSuchSnapshot, TargetOutdated
from binshift.metrics import Observed, RuntimeMetrics
from binshift.migration import Phase
from binshift.model import Epoch, Worker
from binshift.savepoints.states import SavepointState

ADMIN, DRAIN = "admin-token-0123456789", "drain-token-0123456789"
TOKENS = Tokens(ADMIN, DRAIN)
BINS = 16


@dataclass
class FakeService(ControlService):
    """Sixteen bins on workers 0 and 1, ten migrations; worker 0 cannot be drained.

    Attributes:
        writes: every requested change, in order.
        reads: how often anything was read.
        refusal: raised by the next writes, instead of the change.
        reason: why it is not ready; empty if it is.
    """

    writes: list[tuple[object, ...]] = field(default_factory=list)
    reads: int = 0
    refusal: BinshiftError | None = None
    reason: str = ""
    target: TargetRequest | None = None
    stopped: bool = False

    def unready(self) -> str:
        return self.reason

    def snapshot(self) -> Dataflow:
        self.reads += 1
        wanted, target = self.target, None
        if wanted is not None:
            target = Target(
                owner=wanted.owner,
                generation=wanted.generation,
                workers=wanted.workers,
                strategy=wanted.strategy or "Optimized",
                batch_size=wanted.batch_size or 256,
                pre_copy=wanted.pre_copy is not False,
                latency_target_seconds=wanted.latency_target_seconds,
                effective_workers=wanted.workers,
                settled=False,
            )
        state = State.STOPPED if self.stopped else State.RUNNING
        return Dataflow(state=state, epoch=7, route_version=3, bins=BINS, workers=[0, 1], target=target)

    def workers(self) -> Sequence[WorkerLoad]:
        self.reads += 1
        load = WorkerLoad(worker=0, registered=True, effective=True, bins=BINS, keys=None, bytes=None, copies=0)
        return [load, load.model_copy(update={"worker": 1, "keys": 5})]

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        self.reads += 1
        numbers = [b for b in range(BINS) if b >= first and worker in (None, b % 2)]
        copies = [Copy(worker=1, epoch=6)]
        listed = [
            BinLoad(bin=b, worker=b % 2, rows=1, bytes=2, rows_per_second=None, copies=copies) for b in numbers[:limit]
        ]
        return Bins(epoch=7, route_version=3, bins=listed, next=numbers[limit] if len(numbers) > limit else None)

    def placement(self, first: int, limit: int) -> Placement:
        self.reads += 1
        owners, after = [b % 2 for b in range(BINS)], first + limit
        moving = [MovingBins(stage="copying", worker=1, bins=[b for b in (0, 2) if first <= b < after])]
        following = after if after < BINS else None
        return Placement(
            epoch=7, route_version=3, first=first, owners=owners[first:after], moving=moving, next=following
        )

    def newest_epochs(self, after: int, limit: int) -> Epochs:
        self.reads += 1
        seconds = {"plan": 0.1, "job": 0.5, "task_process": 0.2, "record": 0.1, "total": 0.8}
        return epochs_of([EpochTimings(Epoch(7), 1_700_000_000.0, 1, seconds, 5, 4, 0)], after, limit)

    def migrations(self, limit: int) -> Sequence[Migration]:
        self.reads += 1
        return [a_migration(number) for number in range(1, 11)][-limit:]

    def migration(self, number: int) -> Migration:
        self.reads += 1
        if not 1 <= number <= 10:
            raise NoSuchMigration(f"there is no migration {number}")
        return a_migration(number)

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        self._write("put_target", wanted)
        before, self.target = self.target, wanted
        if before is None or before.owner != wanted.owner or before.generation < wanted.generation:
            return a_migration(11)
        self.target = before
        if before.generation > wanted.generation:
            raise TargetOutdated(f"generation {wanted.generation} is older than {before.generation}")
        return None

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        self._write("rebalance", wanted)
        return a_migration(13)

    def put_settings(self, wanted: SettingsRequest) -> LiveSettings:
        self._write("put_settings", wanted)
        return LiveSettings(max_epoch_seconds=wanted.max_epoch_seconds)

    def drain(self, worker: Worker) -> Migration:
        self._write("drain", worker)
        if worker == 0:
            raise DrainRefused("worker 0 is the last one")
        return a_migration(12)

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        self._write("cancel", number, rollback)
        return self.migration(number)

    def stop(self) -> None:
        self._write("stop")
        self.stopped = True

    def savepoints(self) -> Sequence[Snapshot]:
        self.reads += 1
        return [a_snapshot("monday", "/backup/monday")]

    def savepoint(self, name: str) -> Snapshot:
        self.reads += 1
        if name != "monday":
            raise NoSuchSnapshot(f"there is no snapshot {name!r}")
        return a_snapshot(name, "/backup/monday")

    def put_savepoint(self, name: str, location: str) -> Snapshot:
        self._write("put_savepoint", name, location)
        return a_snapshot(name, location)

    def remove_savepoint(self, name: str, location: str | None) -> None:
        self._write("remove_savepoint", name, location)

    def epochs(self) -> Sequence[EpochTimings]:
        return []

    def observed(self) -> Observed:
        return Observed(epoch=Epoch(7), phase=Phase.COPYING)

    def _write(self, *what: object) -> None:
        self.writes.append(what)
        if self.refusal is not None:
            raise self.refusal


def a_migration(number: int) -> Migration:
    """One in progress, with some values unknown."""
    return Migration(
        id=number,
        phase="copying",
        reason="",
        generation=3,
        workers=[0, 1],
        strategy="Optimized",
        batch_size=64,
        pre_copy=True,
        bins_moved=2,
        bins_total=8,
        started_at=moment(1_700_000_000.0),
        ended_at=None,
    )


def a_snapshot(name: str, location: str) -> Snapshot:
    """One that is being copied."""
    return Snapshot(
        name=name,
        location=location,
        state=SavepointState.COPYING,
        reason="",
        epoch=7,
        files=10,
        bytes=1000,
        copied_files=3,
        copied_bytes=300,
        started_at=moment(1_700_000_000.0),
        finished_at=None,
    )


def client(service: FakeService, token: str | None = ADMIN, tokens: Tokens = TOKENS) -> TestClient:
    """A caller of the API over ``service``, with that token; a bug in the API is a response, as for real callers."""
    registry = CollectorRegistry()
    RuntimeMetrics(registry, service.epochs, service.observed)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(
        control_app(ServiceHolder(service), tokens, registry), headers=headers, raise_server_exceptions=False
    )
