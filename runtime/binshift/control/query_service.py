"""A running `DataflowQuery` as the control API sees it.

Binds the query's public face and its `ReadModel` to the `ControlService` protocol: reads are put into the models, writes are
handed on. It decides nothing and holds nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Unpack

from binshift.control import models, statistics
from binshift.control.models import State
from binshift.control.read_model import ReadModel
from binshift.control.rebalancing import RebalanceRequest
from binshift.control.translation import bins_of, migration_of, observed_of, progress_of, target_of
from binshift.engine.dataflow import Dataflow
from binshift.engine.migration_options import MigrationOverrides
from binshift.engine.migrations import Migration
from binshift.errors import DrainRefused, Fenced, NoSuchMigration
from binshift.log.records.targets import Target
from binshift.metrics import Observed
from binshift.metrics.measured import EpochMeasured
from binshift.model import Epoch, Worker
from binshift.routing import Route

log = logging.getLogger(__name__)


class Query(Protocol):
    """The public face of a `DataflowQuery`, as far as it is used here; ``name``, ``id`` and ``runId`` are PySpark's."""

    name: Any
    id: Any
    runId: Any  # noqa: N815 (PySpark's name)

    @property
    def isActive(self) -> bool: ...  # noqa: N802, D102 (PySpark's name)
    @property
    def epoch(self) -> Epoch: ...  # noqa: D102
    @property
    def route(self) -> Route | None: ...  # noqa: D102
    @property
    def timings(self) -> Sequence[EpochMeasured]: ...  # noqa: D102
    @property
    def migrations(self) -> Sequence[Migration]: ...  # noqa: D102
    @property
    def target(self) -> Target | None: ...  # noqa: D102
    @property
    def effective_workers(self) -> tuple[Worker, ...]: ...  # noqa: D102
    def exception(self) -> Exception | None: ...  # noqa: D102
    def put_target(  # noqa: D102
        self,
        *,
        owner: str,
        generation: int,
        workers: tuple[Worker, ...],
        latency_target_seconds: float | None,
        **options: Unpack[MigrationOverrides],
    ) -> Migration | None: ...
    def rebalance(self, **options: Unpack[MigrationOverrides]) -> Migration: ...  # noqa: D102
    def drain(self, worker: Worker, /) -> Migration: ...  # noqa: D102
    def cancel(self, migration_id: int, /, *, rollback: bool) -> Migration: ...  # noqa: D102
    def stop(self) -> None: ...  # noqa: D102


class RunningQuery(Query, Protocol):
    """A `DataflowQuery` with its read_model."""

    @property
    def dataflow(self) -> Dataflow: ...  # noqa: D102


class QueryService:
    """The `ControlService` of one query.

    Args:
        query: its public face.
        read_model: its other parts.
        now: seconds since 1970.
    """

    def __init__(self, query: Query, read_model: ReadModel, now: Callable[[], float] = time.time) -> None:
        self._query, self._read_model, self._now = query, read_model, now
        # These never change, and Spark may be gone when they are asked for.
        self._names = {"name": query.name, "id": str(query.id), "run_id": str(query.runId)}
        self._stopping = threading.Lock()
        self._stopper: threading.Thread | None = None

    # ---------------------------------------------------------------------------------------------------------- reads

    def unready(self) -> str:
        """See `ControlService`."""
        state, reason = self.state()
        if state is not State.RUNNING:
            return f"the query is not running: {state.value}{reason and ': '}{reason}"
        if self._read_model.stopping():
            return "the query is stopping"
        return "" if self._read_model.registered() else "no worker is registered with Spark"

    def snapshot(self) -> models.Dataflow:
        """See `ControlService`."""
        (state, reason), index, epochs, now = self.state(), self._read_model.index(), self._query.timings, self._now()
        route, moving = index.route, self._query.migrations
        watermark = statistics.watermark(index)
        recent = now - statistics.WINDOW_SECONDS
        return models.Dataflow(
            **self._names,
            state=state,
            reason=reason,
            stopping=state is State.RUNNING and self._read_model.stopping(),
            epoch=index.last,
            committed_at=models.moment(epochs[-1].committed_at) if epochs else None,
            under_way=progress_of(self._read_model.epoch_progress(), now),
            route_version=None if route is None else route.version,
            bins=index.bins,
            workers=[] if route is None else list(route.workers),
            registered=sorted(self._read_model.registered()),
            watermark=None if watermark is None else models.moment(watermark[0]),
            watermark_lag_seconds=None if watermark is None else watermark[1],
            rates=statistics.rates(epochs, now),
            latency=statistics.latency(epochs, since=recent),
            target=target_of(self._query.target, self._query.effective_workers, route, moving),
            migration=self._shown(next((m for m in moving if not m.ended), moving[-1])) if moving else None,
        )

    def workers(self) -> Sequence[models.WorkerLoad]:
        """See `ControlService`."""
        index, copies = self._read_model.index(), self._read_model.copies()
        registered, effective, target = self._read_model.registered(), self._query.effective_workers, self._query.target
        bins, sizes = statistics.bin_counts(index), statistics.sizes(index)
        keys, size = statistics.by_worker(index, sizes.rows), statistics.by_worker(index, sizes.bytes)
        desired = [Worker(w) for w in target.workers] if target is not None else []
        failures = self._read_model.worker_failures()
        return [
            models.WorkerLoad(
                worker=worker,
                registered=worker in registered,
                effective=worker in effective,
                bins=bins.get(worker, 0),
                keys=round(keys[worker]) if worker in keys else None,
                bytes=round(size[worker]) if worker in size else None,
                copies=len(copies[worker]) if worker in copies else None,
                background_failures=failures[worker].failures if worker in failures else 0,
                background_error=failures[worker].reason[: models.REASON_CHARACTERS_MAX] if worker in failures else "",
            )
            for worker in sorted({*bins, *registered, *effective, *desired})
        ]

    def bins(self, worker: Worker | None, first: int, limit: int) -> models.Bins:
        """See `ControlService`."""
        return bins_of(self._read_model.index(), self._read_model.copies(), worker, first, limit)

    def migrations(self, limit: int) -> Sequence[models.Migration]:
        """See `ControlService`."""
        return [self._shown(each) for each in self._query.migrations[-limit:]]

    def migration(self, number: int) -> models.Migration:
        """See `ControlService`."""
        for each in self._query.migrations:
            if each.id == number:
                return self._shown(each)
        raise NoSuchMigration(f"there is no migration {number} in this run of the query; GET /v1/migrations lists them")

    def epochs(self) -> Sequence[EpochMeasured]:
        """See `ControlService`."""
        return self._query.timings

    def observed(self) -> Observed:
        """See `ControlService`."""
        return observed_of(self._read_model, self._query.migrations, self.state()[0], self._query.target, self._now())

    # --------------------------------------------------------------------------------------------------------- writes

    def put_target(self, wanted: models.TargetRequest) -> models.Migration | None:
        """See `ControlService`."""
        workers = tuple(Worker(w) for w in wanted.workers)
        migration = self._query.put_target(**(wanted.model_dump() | {"workers": workers}))
        return None if migration is None else self._shown(migration)

    def rebalance(self, wanted: RebalanceRequest) -> models.Migration:
        """See `ControlService`."""
        return self._shown(self._query.rebalance(**wanted.model_dump()))

    def drain(self, worker: Worker) -> models.Migration:
        """See `ControlService`."""
        state, _ = self.state()
        if state is not State.RUNNING or self._stopper is not None or self._read_model.stopping():
            raise DrainRefused(f"worker {worker} is not drained, as the query stops: its state is on the log")
        return self._shown(self._query.drain(worker))

    def cancel(self, number: int, *, rollback: bool) -> models.Migration:
        """See `ControlService`."""
        return self._shown(self._query.cancel(number, rollback=rollback))

    def stop(self) -> None:
        """See `ControlService`."""
        with self._stopping:
            if self._stopper is None:
                self._stopper = threading.Thread(target=self._stop, name="binshift-stop", daemon=True)
                self._stopper.start()

    def _stop(self) -> None:
        try:
            self._query.stop()
        except Exception:  # the edge of a thread: what Spark raises as it ends must be seen somewhere
            log.exception("stopping the query failed")

    # ---------------------------------------------------------------------------------------------------------- parts

    @property
    def stop_asked(self) -> bool:
        """Whether `stop` was called; a program may stop its query itself."""
        return self._stopper is not None

    def state(self) -> tuple[State, str]:
        """What the query does, and why it failed."""
        try:
            error, active = self._query.exception(), self._query.isActive
        except Exception as gone:  # py4j's errors are many; each of them means that Spark's driver has ended
            return (State.STOPPED, "") if self._read_model.stopping() else (State.FAILED, f"Spark is gone: {gone}")
        if error is not None:
            return State.FENCED if isinstance(error, Fenced) else State.FAILED, str(error)[
                : models.REASON_CHARACTERS_MAX
            ]
        if active:
            return State.RUNNING, ""
        return (State.STOPPED if self._read_model.stopping() else State.FINISHED), ""

    def _shown(self, migration: Migration) -> models.Migration:
        return migration_of(migration, self._query.timings)
