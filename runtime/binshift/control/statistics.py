"""Figures that follow from what is measured and recorded: pure, and cheap enough for every request.

Sizes of bins are as old as the bin's newest snapshot on the log, as only workers know them. Snapshots of a version that did
not count share their rows and bytes evenly among their bins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from binshift.control.models import Latency, Rates
from binshift.engine.timings import EpochTimings
from binshift.log.index.bringup import snapshot_starts
from binshift.log.index.index import Index
from binshift.log.records.commits import FileRef, SnapshotRef
from binshift.metrics.measured import arrivals
from binshift.model import Worker

WINDOW_SECONDS: Final = 60.0
"""Rates and latency are those of so many seconds."""

EPOCHS_MAX: Final = 1000
"""Epochs a latency is computed from; of more, the newest."""

POINTS: Final = 16
"""Points that stand for an epoch's records when percentiles are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Rows and bytes by bin, over all operators; nan for a bin no snapshot of which exists yet."""

    rows: npt.NDArray[np.float64]
    bytes: npt.NDArray[np.float64]


def latency(epochs: Sequence[EpochTimings], since: float = 0.0, until: float = float("inf")) -> Latency | None:
    """Record latency of the epochs committed between two times (seconds since 1970); None if they had no records.

    An epoch's records are taken to arrive as in `arrivals`.
    """
    first, last = bisect_left(epochs, since, key=_committed_at), bisect_right(epochs, until, key=_committed_at)
    chosen = [at for at in range(max(first, last - EPOCHS_MAX), last) if epochs[at].records_in]
    if not chosen:
        return None
    spans = np.array([arrivals(epochs[at - 1] if at else None, epochs[at]) for at in chosen])
    points = (spans[:, :1] + (spans[:, 1:] - spans[:, :1]) * np.linspace(0.0, 1.0, POINTS)).ravel()
    weights = np.repeat([float(epochs[at].records_in) for at in chosen], POINTS)
    order = np.argsort(points)
    points, share = points[order], np.cumsum(weights[order]) / weights.sum()
    p50, p95, p99 = (float(points[np.searchsorted(share, q).clip(max=len(points) - 1)]) for q in (0.5, 0.95, 0.99))
    return Latency(epochs=len(chosen), p50_seconds=p50, p95_seconds=p95, p99_seconds=p99, max_seconds=float(points[-1]))


def rates(epochs: Sequence[EpochTimings], now: float) -> Rates | None:
    """How fast the last `WINDOW_SECONDS` went, idle time included; None before the first epoch."""
    if not epochs:
        return None
    began = epochs[0].committed_at - epochs[0].seconds.get("total", 0.0)
    window = min(WINDOW_SECONDS, now - began)
    if window <= 0:
        return None
    recent = epochs[bisect_right(epochs, now - window, key=_committed_at) :]
    return Rates(
        window_seconds=window,
        epochs_per_second=len(recent) / window,
        input_rows_per_second=sum(each.rows_in for each in recent) / window,
        source_rows_per_second=sum(each.records_in for each in recent) / window,
        weighed_rows_per_second=sum(each.weighed_in for each in recent) / window,
        output_rows_per_second=sum(each.rows_out for each in recent) / window,
    )


def rates_by_bin(counts: npt.NDArray[np.float64], measured: Rates | None) -> npt.NDArray[np.float64] | None:
    """Records per second that reach each bin, as bins count them, by its share of those counted; None if too few were."""
    counted = counts.sum()
    return counts / counted * measured.weighed_rows_per_second if measured is not None and counted else None


def _committed_at(epoch: EpochTimings) -> float:
    return epoch.committed_at


def sizes(index: Index) -> Sizes:
    """How large every bin is, by the newest snapshots."""
    rows, size = np.zeros(index.bins), np.zeros(index.bins)
    for operator in index.operators:
        _, snapshot_of = snapshot_starts(index, operator, index.last)
        found = np.full((2, index.bins), np.nan)
        for number in np.unique(snapshot_of[snapshot_of >= 0]).tolist():
            _fill(found, index.snapshots[operator][number], snapshot_of == number)
        rows, size = rows + found[0], size + found[1]
    return Sizes(rows, size)


def _fill(found: npt.NDArray[np.float64], snapshot: SnapshotRef, newest: npt.NDArray[np.bool_]) -> None:
    """Rows and bytes of those bins whose newest snapshot this is."""
    found[:, newest] = 0.0
    file, loads = snapshot.file, snapshot.sizes
    if file is None:
        return
    if loads is None:
        found[:, newest] = np.array([[file.rows], [file.bytes]]) / max(len(snapshot.bins), 1)
        return
    here = newest[file.bins.array]
    found[:, file.bins.array[here]] = np.stack([loads.rows, loads.bytes])[:, here]


def by_worker(index: Index, values: npt.NDArray[np.float64]) -> Mapping[Worker, float]:
    """The sum of the known values of each worker's bins; a worker none of whose bins is known is left out."""
    if index.route is None:
        return {}
    known = ~np.isnan(values)
    owners = index.route.owners[known]
    sums = np.bincount(owners, weights=values[known])
    return {Worker(w): float(sums[w]) for w in np.unique(owners).tolist()}


def bin_counts(index: Index) -> Mapping[Worker, int]:
    """How many bins each worker owns; only workers with any."""
    if index.route is None:
        return {}
    workers, counts = np.unique(index.route.owners, return_counts=True)
    return {Worker(w): count for w, count in zip(workers.tolist(), counts.tolist(), strict=True)}


def files(index: Index) -> Iterator[FileRef]:
    """Every data file that the records held name."""
    for record in index.records.values():
        yield from (part.delta for part in record.parts if part.delta is not None)
    for snapshots in index.snapshots.values():
        yield from (snapshot.file for snapshot in snapshots if snapshot.file is not None)


def watermark(index: Index) -> tuple[float, float] | None:
    """The watermark of the newest epoch, in seconds since 1970, and how far behind that epoch's time it is.

    None where there is no watermark (yet).
    """
    record = index.records.get(index.last)
    if record is None or not record.watermark_ms:
        return None
    return record.watermark_ms / 1000, (record.batch_time_ms - record.watermark_ms) / 1000


def snapshot_age_epochs(index: Index) -> int | None:
    """Epochs since the oldest of the bins' newest snapshots; None while no bin has a row.

    A bin with rows and no snapshot counts from the oldest epoch that the log holds: it is rebuilt from there.
    """
    oldest = []
    for operator in index.operators:
        starts = index.snapshot_epochs(operator)
        starts[starts < 0] = index.base
        changed = np.delete(starts, index.never_changed(operator).array)
        oldest += [int(changed.min())] if len(changed) else []
    return index.last - min(oldest) if oldest else None
