"""The service of one running query.

Reads are put into the models, writes are handed on to the query. It decides nothing and holds nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from binshift.control import models, read_model, statistics
from binshift.control.load_answers import hot_keys_shown, hottest_of, load_shown
from binshift.control.models import State
from binshift.control.placement import Placement, placement_of
from binshift.control.query_protocol import RunningQuery
from binshift.control.requests import RebalanceRequest, SettingsRequest, TargetRequest
from binshift.control.savepoint_answers import shown
from binshift.control.savepoints import Snapshot
from binshift.control.services import ControlService
from binshift.control.skew_figures import SkewFigures
from binshift.control.translation import bins_of, migration_of, observed_of, progress_of, target_of
from binshift.engine.migrations import Migration
from binshift.engine.timings import EpochTimings
from binshift.errors import DrainRefused, Fenced, NoSuchMigration
from binshift.load import Load
from binshift.metrics import Observed
from binshift.model import Worker

log = logging.getLogger(__name__)


class QueryService(ControlService):
    """That of one query.

    Args:
        query: what the program holds.
        now: seconds since 1970.
    """

    def __init__(self, query: RunningQuery, now: Callable[[], float] = time.time) -> None:
        self._query, self._now = query, now
        self._dataflow = dataflow = query.dataflow
        self._targets, self._epochs = dataflow.targets, dataflow.epochs
        self._skew = SkewFigures(dataflow.targets)
        # These never change, and Spark may be gone when they are read.
        self._name, self._id, self._run_id = query.name, str(query.id), str(query.runId)
        self._stopping = threading.Lock()
        self._stopper: threading.Thread | None = None

    # ---------------------------------------------------------------------------------------------------------- reads

    def unready(self) -> str:
        state, reason = self.state()
        if state is not State.RUNNING:
            return f"the query is not running: {state.value}{reason and ': '}{reason}"
        if self._epochs.stopping.is_set():
            return "the query is stopping"
        return "" if read_model.registered(self._dataflow) else "no worker is registered with Spark"

    def snapshot(self) -> models.Dataflow:
        (state, reason), index, epochs, now = self.state(), self._dataflow.log.index, self.epochs(), self._now()
        route, moving = index.route, self._history()
        watermark = statistics.watermark(index)
        recent, rates = now - statistics.WINDOW_SECONDS, statistics.rates(epochs, now)
        speed = None if rates is None else rates.source_rows_per_second
        return models.Dataflow(
            name=self._name,
            id=self._id,
            run_id=self._run_id,
            state=state,
            reason=reason,
            stopping=state is State.RUNNING and self._epochs.stopping.is_set(),
            epoch=index.last,
            committed_at=models.moment(epochs[-1].committed_at) if epochs else None,
            under_way=progress_of(self._epochs.progress, now),
            route_version=None if route is None else route.version,
            bins=index.bins,
            workers=[] if route is None else list(route.workers),
            registered=sorted(read_model.registered(self._dataflow)),
            watermark=None if watermark is None else models.moment(watermark[0]),
            watermark_lag_seconds=None if watermark is None else watermark[1],
            rates=rates,
            latency=statistics.latency(epochs, since=recent),
            load=load_shown(self._load(now, rates)),
            hot_keys=hot_keys_shown(self._dataflow.coordinator.hot_keys.named, speed),
            settings=models.LiveSettings(max_epoch_seconds=self._query.input.requested),
            target=target_of(self._targets.target, self._targets.effective, route, moving),
            migration=self._shown(next((m for m in moving if not m.ended), moving[-1])) if moving else None,
        )

    def workers(self) -> Sequence[models.WorkerLoad]:
        index, copies = self._dataflow.log.index, read_model.copies(self._dataflow)
        registered, effective, target = (
            read_model.registered(self._dataflow),
            self._targets.effective,
            self._targets.target,
        )
        bins, sizes = statistics.bin_counts(index), statistics.sizes(index)
        keys, size = statistics.by_worker(index, sizes.rows), statistics.by_worker(index, sizes.bytes)
        desired = [Worker(w) for w in target.workers] if target is not None else []
        failures = read_model.worker_failures(self._dataflow)
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
        counts = self._dataflow.coordinator.migrations.bin_records.counts
        rates = statistics.rates_by_bin(counts, statistics.rates(self.epochs(), self._now()))
        return bins_of(self._dataflow.log.index, read_model.copies(self._dataflow), rates, worker, first, limit)

    def placement(self, first: int, limit: int) -> Placement:
        return placement_of(self._dataflow.log.index, self._history(), first, limit)

    def migrations(self, limit: int) -> Sequence[models.Migration]:
        return [self._shown(each) for each in self._history()[-limit:]]

    def migration(self, number: int) -> models.Migration:
        for each in self._history():
            if each.id == number:
                return self._shown(each)
        raise NoSuchMigration(f"there is no migration {number} in this run of the query; GET /v1/migrations lists them")

    def epochs(self) -> Sequence[EpochTimings]:
        return tuple(self._epochs.timings)

    def observed(self) -> Observed:
        now = self._now()
        load = self._load(now, statistics.rates(self.epochs(), now))
        return observed_of(self._dataflow, self.state()[0], now, load)

    # --------------------------------------------------------------------------------------------------------- writes

    def put_target(self, wanted: TargetRequest) -> models.Migration | None:
        migration = self._query.put_target(**wanted.model_dump() | {"workers": tuple(map(Worker, wanted.workers))})
        return None if migration is None else self._shown(migration)

    def rebalance(self, wanted: RebalanceRequest) -> models.Migration:
        return self._shown(self._query.rebalance(**wanted.model_dump()))

    def put_settings(self, wanted: SettingsRequest) -> models.LiveSettings:
        self._query.input.request(wanted.max_epoch_seconds)
        return models.LiveSettings(max_epoch_seconds=self._query.input.requested)

    def drain(self, worker: Worker) -> models.Migration:
        state, _ = self.state()
        if state is not State.RUNNING or self._stopper is not None or self._epochs.stopping.is_set():
            raise DrainRefused(f"worker {worker} is not drained, as the query stops: its state is on the log")
        return self._shown(self._query.drain(worker))

    def cancel(self, number: int, *, rollback: bool) -> models.Migration:
        return self._shown(self._query.cancel(number, rollback=rollback))

    def savepoints(self) -> Sequence[Snapshot]:
        return [shown(each) for each in self._query.savepoints.newest()]

    def savepoint(self, name: str) -> Snapshot:
        return shown(self._query.savepoints.get(name))

    def put_savepoint(self, name: str, location: str) -> Snapshot:
        return shown(self._query.savepoints.put(name, location))

    def remove_savepoint(self, name: str, location: str | None) -> None:
        self._query.savepoints.remove(name, location)

    def stop(self) -> None:
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
    def stop_requested(self) -> bool:
        """Whether `stop` was called; a program may stop its query itself."""
        return self._stopper is not None

    def state(self) -> tuple[State, str]:
        """What the query does, and why it failed."""
        try:
            error, active = self._query.exception(), self._query.isActive
        except Exception as gone:  # py4j's errors are many; each of them means that Spark's driver has ended
            return (State.STOPPED, "") if self._epochs.stopping.is_set() else (State.FAILED, f"Spark is gone: {gone}")
        if error is not None:
            return State.FENCED if isinstance(error, Fenced) else State.FAILED, str(error)[
                : models.REASON_CHARACTERS_MAX
            ]
        if active:
            return State.RUNNING, ""
        return (State.STOPPED if self._epochs.stopping.is_set() else State.FINISHED), ""

    def _load(self, now: float, measured: models.Rates | None) -> Load:
        """The load, with the bin that has most records. ``measured``: of the newest epochs."""
        coordinator, load = self._dataflow.coordinator, self._query.load(now)
        read = load.rows_per_second
        reaching = min(1.0, measured.weighed_rows_per_second / read) if measured is not None and read else 1.0
        counts, named = coordinator.migrations.bin_records.counts, coordinator.hot_keys.named
        return replace(load, hottest=hottest_of(counts, named, reaching), skew=self._skew.newest(reaching))

    def _history(self) -> Sequence[Migration]:
        return tuple(self._dataflow.coordinator.migrations.history)

    def _shown(self, migration: Migration) -> models.Migration:
        return migration_of(migration, self.epochs())
