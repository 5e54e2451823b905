"""What a large dataflow costs its driver and its object store: up to 1,000 workers and 65,536 bins, without Spark.

The engine, the log and the tasks are the real ones, on simulated machines in this process (`simulator`). Each epoch has a few rows for
every worker, so that every worker writes a delta. Driver's seconds are processor time of everything but the workers' tasks: Spark's part
of an epoch is not in them, and does not depend on bins. Requests and bytes are those of driver and workers, per epoch, in the steady state:
all bins have a snapshot, and the log is trimmed.

    epoch_ms     of the driver, in an epoch
    round_ms     of the driver, in a round of background work, one of which follows each epoch here
    move_ms      of the driver, in the slowest epoch while half as many workers become all of them
    record_kib   of an epoch's record; manifest_kib: of a manifest
    puts, gets, lists, deletes   requests to the store, in an epoch
    dollars_per_hour   what these cost in S3's standard class, at one epoch a second
    log_mib      of memory that the driver's index of the log takes
    open_s       to open the log again, as a restarted driver does
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from archive import save
from counted_files import CountedFiles
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

from binshift.engine.dataflow import COLLECT_EVERY_EPOCHS
from binshift.engine.migration_options import MigrationOptions
from binshift.log.log import Log
from binshift.log.storage.layout import MANIFESTS, RECORDS
from binshift.model import Worker
from binshift.settings import Settings
from binshift.store.engine.memory_store import MemoryStore
from simulator.driver import Driver
from simulator.faults import Faults
from simulator.flows import Row as InputRow
from simulator.flows import Totals
from simulator.graph import Graph
from simulator.jobs import SimulatedJobs
from simulator.world import Tuning, World

ROWS_PER_WORKER = 2
DOLLARS = {"puts": 5e-6, "lists": 5e-6, "gets": 4e-7, "deletes": 0.0}
"""For a request, in us-east-1 in 2026."""
KIB, MIB = 1024, 1024 * 1024
TARGETS = (
    Target("driver's time in an epoch", "epoch_ms", 500, of=lambda row: row["workers"] == 1000, unit=" ms"),
    Target("index of the log in memory", "log_mib", 1024, unit=" MiB"),
)


def main() -> None:
    """Measure each size."""
    made = parser(__doc__)
    made.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    made.add_argument("--bins", type=int, nargs="+", default=[4096, 65536])
    made.add_argument("--epochs", type=int, default=40, help="measured epochs, after a whole cycle of snapshots")
    args = parsed(made, {"workers": [4], "bins": [64], "epochs": 4})
    sizes = [(workers, bins) for bins in args.bins for workers in args.workers]
    rows = [measured(*size, args.epochs) for size in track(sizes, description="dataflows")]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("large", rows, ["workers", "bins"], elsewhere=WATCH.cores())


class TimedJobs(SimulatedJobs):
    """Jobs whose own processor time is known.

    Attributes:
        seconds: of all tasks so far.
    """

    seconds = 0.0

    def epoch(self, *args: Any, **others: Any) -> Any:
        """See `SimulatedJobs`."""
        with self._timed():
            return super().epoch(*args, **others)

    def background(self, *args: Any, **others: Any) -> None:
        """See `SimulatedJobs`."""
        with self._timed():
            super().background(*args, **others)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds += time.process_time() - began


@dataclass
class Large:
    """A dataflow of one size."""

    workers: int
    bins: int
    files: CountedFiles = field(default_factory=CountedFiles)

    def __post_init__(self) -> None:
        usual = Settings()
        tuning = Tuning(
            snapshot_cycle_epochs=usual.snapshot_cycle_epochs,
            manifest_every_epochs=usual.manifest_every_epochs,
            collect_every_epochs=COLLECT_EVERY_EPOCHS,
            grace_seconds=1.0,
            budget_pieces=self.bins,
            rows_at_once=KIB,
            defaults=MigrationOptions(),
        )
        half = max(1, self.workers // 2)
        self.world = World(
            Graph.of(Totals()),
            self.bins,
            half,
            self.workers,
            tuning,
            self.files,
            lambda operator, worker: MemoryStore(tuning.stores),
            Faults(),
            0,
        )
        self.driver = Driver(self.world, TimedJobs)
        self.epochs = 0

    def spent(self, work: Callable[[], object]) -> float:
        """The driver's processor time in it, in seconds."""
        jobs = self.driver.jobs
        assert isinstance(jobs, TimedJobs)
        began, tasks = time.process_time(), jobs.seconds
        work()
        return time.process_time() - began - (jobs.seconds - tasks)

    def epoch(self) -> float:
        """One epoch with rows for every worker; returns the driver's seconds."""
        batch = self.world.stream.offer(self._rows(), 1000 * self.epochs)
        spent = self.spent(lambda: self.driver.epoch(batch))
        self.world.stream.commit(batch.epoch)
        self.epochs += 1
        return spent

    def round(self) -> float:
        """A round of background work; returns the driver's seconds."""
        return self.spent(self.driver.round)

    def grow(self) -> float:
        """Half of the workers become all of them; returns the driver's seconds in the slowest epoch."""
        migration = self.driver.targets.rescale(tuple(map(Worker, range(self.workers))))
        slowest = 0.0
        while not migration.phase.ended:
            slowest = max(slowest, self.epoch())
            self.round()
        return slowest

    def _rows(self) -> Sequence[InputRow]:
        first = self.epochs * self.workers * ROWS_PER_WORKER
        return [{"key": f"k{first + n}", "value": 1} for n in range(self.workers * ROWS_PER_WORKER)]


def measured(workers: int, bins: int, epochs: int) -> dict[str, Any]:
    """A row for one size."""
    large = Large(workers, bins)
    large.epoch()
    slowest = large.grow()
    for _ in range(Settings().snapshot_cycle_epochs):
        large.epoch()
        large.round()
    files = large.files
    before = Counter(files.requests)
    files.bytes.clear()
    files.files.clear()
    spent = [(large.epoch(), large.round()) for _ in range(epochs)]
    requests = {kind: (files.requests[kind] - before[kind]) / epochs for kind in ("puts", "gets", "lists", "deletes")}
    seconds, mib = reopened(large)
    return {
        "workers": workers,
        "bins": bins,
        "epoch_ms": 1000 * sorted(epoch for epoch, _ in spent)[epochs // 2],
        "round_ms": 1000 * sorted(spent_round for _, spent_round in spent)[epochs // 2],
        "move_ms": 1000 * slowest,
        "record_kib": files.bytes[RECORDS] / max(1, files.files[RECORDS]) / KIB,
        "manifest_kib": manifest_bytes(files) / KIB,
        **requests,
        "dollars_per_hour": 3600 * sum(DOLLARS[kind] * count for kind, count in requests.items()),
        "log_mib": mib,
        "open_s": seconds,
    }


def manifest_bytes(files: CountedFiles) -> int:
    """Of the newest manifest; 0 without one."""
    names = sorted(name for name in files.content if name.startswith(MANIFESTS))
    return len(files.content[names[-1]]) if names else 0


def reopened(large: Large) -> tuple[float, float]:
    """Seconds to open the log once more, and MiB that the opened log takes."""

    def opened() -> Log:
        world = large.world
        return Log.on(world.files, world.format, who="again", spark_committed=lambda: world.stream.committed)

    began = time.process_time()
    opened()
    seconds = time.process_time() - began
    gc.collect()
    tracemalloc.start()
    kept = opened()
    gc.collect()
    mib = tracemalloc.get_traced_memory()[0] / MIB
    tracemalloc.stop()
    del kept
    return seconds, mib


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['workers']:,} workers, {row['bins']:,} bins"


if __name__ == "__main__":
    main()
