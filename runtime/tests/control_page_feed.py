"""A fake query of any size behind the real control server, with a migration that the test moves forward, for tests of the page."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from control_fakes import ADMIN, DRAIN, FakeService, a_migration

from binshift.control import Control, ControlSettings, Tokens
from binshift.control.epoch_figures import Epochs, epochs_of
from binshift.control.load_figures import HotKey
from binshift.control.models import Dataflow, Latency, Migration, Rates, State, Target, WorkerLoad, moment
from binshift.control.placement import MovingBins, Placement
from binshift.control.requests import TargetRequest
from binshift.engine.timings import EpochTimings
from binshift.model import Epoch

SECONDS = {
    "plan": 0.03,
    "task_bring_up": 0.01,
    "task_process": 0.09,
    "task_delta": 0.03,
    "task_commit": 0.02,
    "record": 0.02,
}


HOT_KEY = HotKey(operator="op0", key="<b>alice", bin=7, worker=1, share=0.634, rows_per_second=None)


@dataclass
class Feed(FakeService):
    """A query whose bins are given to workers by `flip`.

    Attributes:
        owners: of the bins.
        registered: workers with an executor.
        moving: destination by bin of a running migration, in the order of the moves.
        done: moves that have flipped.
        stage_size: bins in each of the stages flipping, copied and copying.
        known: fields of the snapshot that differ.
        timings: of the epochs.
        ended: migrations that have ended.
        writes_target: whether a target is accepted as the query's own.
    """

    owners: list[int] = field(default_factory=lambda: [b % 2 for b in range(64)])
    registered: list[int] = field(default_factory=lambda: [0, 1])
    moving: dict[int, int] = field(default_factory=dict)
    done: int = 0
    stage_size: int = 4
    known: dict[str, object] = field(default_factory=dict)
    timings: list[EpochTimings] = field(default_factory=list)
    ended: list[Migration] = field(default_factory=list)
    version: int = 1
    owner: str = ""

    def snapshot(self) -> Dataflow:
        """See `FakeService`."""
        holding = sorted(set(self.owners))
        wanted = self.target.workers if self.target is not None else holding
        target = Target(
            owner=self.owner,
            generation=self.target.generation if self.target is not None else 1,
            workers=wanted,
            strategy="Optimized",
            batch_size=256,
            pre_copy=True,
            latency_target_seconds=None,
            effective_workers=wanted,
            settled=not self.moving,
        )
        seen = Dataflow(
            state=State.STOPPED if self.stopped else State.RUNNING,
            name="clicks",
            id="id-clicks",
            epoch=self.timings[-1].epoch if self.timings else 0,
            route_version=self.version,
            bins=len(self.owners),
            workers=holding,
            registered=self.registered,
            rates=Rates(
                window_seconds=60,
                epochs_per_second=2.1,
                input_rows_per_second=4000,
                source_rows_per_second=10_000,
                output_rows_per_second=1200,
            ),
            latency=Latency(epochs=120, p50_seconds=0.34, p95_seconds=0.45, p99_seconds=0.52, max_seconds=0.8),
            watermark=moment(1_700_000_000.0),
            watermark_lag_seconds=10.2,
            target=target,
            migration=self._migration(),
        )
        return seen.model_copy(update=self.known)

    def workers(self) -> Sequence[WorkerLoad]:
        """See `FakeService`."""
        counts = {worker: self.owners.count(worker) for worker in {*self.owners, *self.registered}}
        return [
            WorkerLoad(
                worker=worker,
                registered=worker in self.registered,
                effective=True,
                bins=count,
                keys=count * 244,
                bytes=count * 9800,
                copies=0,
            )
            for worker, count in sorted(counts.items())
        ]

    def placement(self, first: int, limit: int) -> Placement:
        """See `ControlService`."""
        waiting = list(self.moving.items())[self.done :]
        size, names = self.stage_size, ("flipping", "copied", "copying")
        groups = [(name, waiting[at * size : (at + 1) * size]) for at, name in enumerate(names)]
        moving = [
            MovingBins.model_validate({"stage": name, "worker": worker, "bins": [b for b, to in part if to == worker]})
            for name, part in [*groups, ("waiting", waiting[3 * size :])]
            for worker in sorted({to for _, to in part})
        ]
        after = min(first + limit, len(self.owners))
        following = after if after < len(self.owners) else None
        listed = self.owners[first:after]
        return Placement(epoch=7, route_version=self.version, first=first, owners=listed, moving=moving, next=following)

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """See `FakeService`; the accepted target's migration begins."""
        self._write("put_target", wanted)
        self.target = wanted
        self.begin(wanted.workers)
        return self._migration()

    def begin(self, workers: Sequence[int]) -> None:
        """A migration that shares the bins evenly among these workers, by little movement."""
        share = math.ceil(len(self.owners) / len(workers))
        room = {worker: share - self.owners.count(worker) for worker in workers}
        self.moving, self.done = {}, 0
        kept: dict[int, int] = {}
        for bin, owner in enumerate(self.owners):
            kept[owner] = kept.get(owner, 0) + 1
            if owner in workers and kept[owner] <= share:
                continue
            to = max(room, key=lambda worker: room[worker])
            room[to] -= 1
            self.moving[bin] = to
        self.started = time.time()

    started: float = 0.0

    def flip(self, count: int) -> None:
        """The next bins get their owners."""
        moves = list(self.moving.items())
        for bin, worker in moves[self.done : self.done + count]:
            self.owners[bin] = worker
        self.done = min(len(moves), self.done + count)
        self.version += 1
        if self.done == len(moves):
            found = self._migration()
            assert found is not None
            self.ended.append(found.model_copy(update={"phase": "settled", "ended_at": moment(time.time())}))
            self.moving = {}

    def epoch(self, committed_at: float, seconds: float, moved: int = 0) -> None:
        """One more epoch of this duration, in proportions as measured."""
        scale = seconds / 0.35
        parts = {name: value * scale for name, value in SECONDS.items()} | {"job": 0.29 * scale, "total": seconds}
        number = self.timings[-1].epoch + 1 if self.timings else 0
        moving = bool(moved)
        timing = EpochTimings(Epoch(number), committed_at, 1, parts, 400, 120, moved, moving=moving, records_in=1000)
        self.timings.append(timing)

    def epochs(self) -> Sequence[EpochTimings]:
        """See `FakeService`."""
        return self.timings

    def newest_epochs(self, after: int, limit: int) -> Epochs:
        """See `ControlService`."""
        return epochs_of(self.timings, after, limit)

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `FakeService`."""
        running = self._migration() if self.moving else None
        return [*self.ended, *([] if running is None else [running])][-limit:]

    def _migration(self) -> Migration | None:
        if not self.moving:
            return self.ended[-1] if self.ended else None
        total, copied = len(self.moving), min(2 * self.stage_size, len(self.moving) - self.done)
        numbers: dict[str, object] = {"bins_moved": self.done, "bins_total": total, "bins_copied": copied}
        numbers |= {
            "bytes_moved": self.done * 9800,
            "bytes_total": total * 9800,
            "seconds_left": (total - self.done) / 500,
        }
        began: datetime | None = moment(self.started)
        return a_migration(len(self.ended) + 1).model_copy(
            update={**numbers, "phase": "flipping", "started_at": began, "workers": sorted(set(self.moving.values()))}
        )


def busy(bins: int) -> Feed:
    """Two minutes of a query whose bins move from two workers to four, three fifths of them done."""
    feed, now = Feed(owners=[b % 2 for b in range(bins)], stage_size=max(4, bins // 40)), time.time()
    random = np.random.default_rng(7)
    for at in np.arange(now - 290, now, 0.9).tolist():
        moving = -190 < at - now < -172 or at - now > -14
        seconds = 0.27 + 0.05 * random.random() + (0.16 * random.random() if moving else 0.0)
        feed.epoch(at, seconds, 64 if moving else 0)
    feed.begin([0, 1])
    feed.moving = {0: 1}
    feed.started = now - 190
    feed.flip(1)
    feed.owners[0] = 0
    feed.ended[0] = feed.ended[0].model_copy(update={"ended_at": moment(now - 172), "bins_total": 1024})
    feed.registered = [0, 1, 2, 3]
    feed.begin([0, 1, 2, 3])
    feed.started = now - 14
    feed.flip(len(feed.moving) * 3 // 5)
    return feed


@contextmanager
def served(*feeds: Feed) -> Iterator[str]:
    """The control server over these queries; the address of its page."""
    control = Control(ControlSettings(tokens=Tokens(ADMIN, DRAIN)))
    for feed in feeds:
        control.services.add(feed)
    with control.start():
        yield control.api.url
