"""From the query's own types to what goes over the wire. Each function takes values and gives a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from binshift.autoscale import recommended_workers
from binshift.control import models, read_model, statistics
from binshift.engine.dataflow import Dataflow
from binshift.engine.epoch_progress import EpochProgress
from binshift.engine.migrations import Migration
from binshift.engine.timings import EpochTimings
from binshift.load import Load
from binshift.log.index.index import Index
from binshift.log.records.targets import Target
from binshift.metrics import Observed
from binshift.migration import Phase
from binshift.model import Worker
from binshift.routing import Route

_SAME_IN_TARGET = ("owner", "generation", "strategy", "batch_size", "pre_copy", "latency_target_seconds")


def target_of(
    target: Target | None, effective: Sequence[Worker], route: Route | None, migrations: Sequence[Migration]
) -> models.Target | None:
    """The desired target, with what of it is effective; None before the first."""
    if target is None:
        return None
    same = {name: getattr(target, name) for name in _SAME_IN_TARGET}
    reached = settled(target.workers, effective, route, migrations)
    return models.Target(**same, workers=list(target.workers), effective_workers=list(effective), settled=reached)


def settled(
    desired: Sequence[int], effective: Sequence[int], route: Route | None, migrations: Sequence[Migration]
) -> bool:
    """Whether bins are where ``desired`` wants them, and nothing moves.

    The same workers are not enough: a rescale that was cancelled has given each some bins, and none its share. So the
    newest migration that was about workers must have settled, or there was none in this run.
    """
    if route is None or set(desired) != set(effective) or any(not each.ended for each in migrations):
        return False
    rescales = [each for each in migrations if each.request.workers is not None]
    if rescales and rescales[-1].phase is not Phase.SETTLED:
        return False
    return set(route.workers) <= set(desired) and len(route.workers) == min(len(set(desired)), route.bins)


def migration_of(migration: Migration, epochs: Sequence[EpochTimings]) -> models.Migration:
    """One migration in numbers; ``epochs`` are the newest, ascending, for the latency before and during it."""
    request, progress = migration.request, migration.progress
    began, until = migration.started_at, float("inf") if migration.ended_at is None else migration.ended_at
    counts = {} if progress is None else {name: getattr(progress, name) for name in _COUNTS}
    return models.Migration(
        id=migration.id,
        phase=migration.phase.value,
        reason=migration.reason[: models.REASON_CHARACTERS_MAX],
        generation=request.generation,
        workers=None if request.workers is None else list(request.workers),
        strategy=request.options.strategy.value,
        batch_size=request.options.batch_size,
        pre_copy=request.options.pre_copy,
        started_at=models.moment(began),
        ended_at=models.moment(migration.ended_at),
        latency_before=statistics.latency(epochs, since=began - statistics.WINDOW_SECONDS, until=began),
        latency_during=statistics.latency(epochs, since=began, until=until),
        **counts,
    )


def progress_of(found: EpochProgress | None, now: float) -> models.EpochUnderWay | None:
    """The epoch that runs, with its age at ``now`` (seconds since 1970); a clock that was set back makes nothing negative."""
    if found is None:
        return None
    seconds = max(0.0, now - found.began)
    trouble = found.trouble[: models.REASON_CHARACTERS_MAX]
    return models.EpochUnderWay(
        epoch=found.epoch, runs=found.runs, part=found.stage.value, seconds=seconds, trouble=trouble
    )


_COUNTS = (
    *("steps_flipped", "steps_inflight", "steps_total", "bins_moved", "bins_copied", "bins_total"),
    *("bytes_moved", "bytes_copied", "bytes_total", "seconds_left"),
)
"""Fields of a `Progress` that `models.Migration` has under the same name."""


def bins_of(
    index: Index,
    copies: Mapping[Worker, Mapping[int, int]],
    rates: npt.NDArray[np.float64] | None,
    worker: Worker | None,
    first: int,
    limit: int,
) -> models.Bins:
    """One page of bins, of ``worker`` only if one is named; ``rates`` are their records per second, if known."""
    route = index.route
    if route is None:
        return models.Bins(epoch=index.last, route_version=None, bins=[], next=None)
    chosen = np.arange(route.bins) if worker is None else route.bins_of(worker).array
    page = chosen[chosen >= first][: limit + 1].tolist()
    sizes = statistics.sizes(index)
    held = {
        bin: [models.Copy(worker=w, epoch=copies[w][bin]) for w in sorted(copies) if bin in copies[w]]
        for bin in page[:limit]
    }
    listed = [
        models.BinLoad(
            bin=bin,
            worker=int(route.owners[bin]),
            rows=_known(sizes.rows[bin]),
            bytes=_known(sizes.bytes[bin]),
            rows_per_second=None if rates is None else float(rates[bin]),
            copies=held[bin],
        )
        for bin in page[:limit]
    ]
    following = page[limit] if len(page) > limit else None
    return models.Bins(epoch=index.last, route_version=route.version, bins=listed, next=following)


def _known(value: float) -> int | None:
    return None if np.isnan(value) else round(value)


def observed_of(dataflow: Dataflow, state: models.State, now: float, load: Load) -> Observed:
    """What is true now, for the metrics."""
    index, migrations = dataflow.log.index, dataflow.coordinator.migrations
    newest, target = next(reversed(tuple(migrations.history)), None), dataflow.targets.target
    sizes, progress, files = statistics.sizes(index), newest.progress if newest else None, list(statistics.files(index))
    watermark, running = statistics.watermark(index), progress_of(dataflow.epochs.progress, now)
    registered, failures = read_model.registered(dataflow), read_model.worker_failures(dataflow)
    standing = read_model.standbys(dataflow)
    return Observed(
        epoch=index.last,
        route_version=None if index.route is None else index.route.version,
        executors=len(registered),
        background_failures={w: failures[w].failures if w in failures else 0 for w in registered},
        bins=statistics.bin_counts(index),
        keys=statistics.by_worker(index, sizes.rows),
        bytes=statistics.by_worker(index, sizes.bytes),
        watermark_lag_seconds=None if watermark is None else watermark[1],
        state=state.flags(),
        target_workers=None if target is None else len(target.workers),
        latency_target_seconds=migrations.pacer.target_seconds,
        arriving_rows_per_second=load.rows_per_second,
        backlog_rows=load.behind,
        bound_rows=load.bound,
        capacity_rows_per_second=load.capacity,
        hottest_bin_share=load.hottest.share if load.hottest else None,
        hot_key_share=dataflow.coordinator.hot_keys.shares(),
        recommended_workers=recommended_workers(load, migrations.pacer.aim_seconds),
        epoch_running_seconds=0.0 if running is None else running.seconds,
        phase=newest.phase if newest else None,
        migration_moved_bins=progress.bins_moved if progress else None,
        migration_planned_bins=progress.bins_total if progress else None,
        migration_left_seconds=progress.seconds_left if progress else None,
        copy_lag_epochs=read_model.copy_lag_epochs(dataflow),
        copied_bytes=migrations.bytes_copied,
        standby_bins=None if standing is None else standing.bins,
        standby_lag_epochs=None if standing is None else standing.lag_epochs,
        runs_failed=dataflow.epochs.runs_failed,
        log_files=len(files),
        log_bytes=sum(each.bytes for each in files),
        snapshot_age_epochs=statistics.snapshot_age_epochs(index),
    )
