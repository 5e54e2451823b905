"""The code that runs in an executor's Python worker: the adapter between Spark's tasks and `binshift.worker`.

A Python worker process serves many tasks in sequence and lives as long as its executor: modules, opened stores and unpickled
operators are kept between tasks. A warm worker therefore needs no start-up time, and a cold one needs a second.
"""

from __future__ import annotations

import functools
import gc
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.accumulators import Accumulator

from binshift.errors import SparkRetried, WrongExecutor
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import Worker
from binshift.operators.contract import Operator
from binshift.store import abandoned
from binshift.store.bins.binstore import BinStore
from binshift.store.opening import STAND_IN, StoreSettings, open_store, scratch_store
from binshift.worker.background_task import run_round
from binshift.worker.epoch_task import EpochTask
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, LogLocation, Summary

Result = TypeVar("Result")

BACKGROUND_NICENESS = 5
"""A background thread gets about a quarter of a core that an epoch's task competes for, and all of an idle one."""

REASON_CHARACTERS_MAX = 1000
"""Of the reason of a failed round, to limit the message."""

STORE_DIRECTORY = "BINSHIFT_STORE_DIR"
"""Environment variable of an executor: the directory of its local stores. It outlives the executor, not the machine."""


@dataclass(frozen=True)
class Place:
    """The place where a task must run.

    Attributes:
        worker: the slot.
        host: the host name that its executor registered with.
    """

    worker: Worker
    host: str


@dataclass(frozen=True)
class Environment:
    """What every task of a query needs in addition to its spec.

    Attributes:
        query: names the query's stores.
        bins: the number of bins.
        log: the location of the log.
        store: how stores are opened.
        directory: the directory of the stores; None leaves the choice to the executor.
    """

    query: str
    bins: int
    log: LogLocation
    store: StoreSettings
    directory: str | None = None


class EpochFunction:
    """S, as `mapInArrow` calls it: one call for each worker's partition."""

    def __init__(
        self,
        specs: tuple[EpochSpec, ...],
        places: tuple[Place, ...],
        environment: Environment,
        operator: bytes,
        summaries: Accumulator[list[object]],
    ) -> None:
        self._specs = specs
        self._places = places
        self._environment = environment
        self._operator = operator
        self._summaries = summaries

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch's part of this partition's worker."""
        context = task_context()
        partition = pinned_partition(context)
        spec, place = self._specs[partition], self._places[partition]
        if not spec.scratch:  # scratch tasks may run anywhere
            check_place(place)
        if context.attemptNumber() > 0:
            raise SparkRetried(f"Spark re-ran worker {spec.worker}'s task of epoch {spec.epoch}")
        attempt = f"{spec.run_prefix}{context.taskAttemptId()}"
        with self._store(spec, attempt) as store:
            task = EpochTask(spec, operator_from(self._operator), store, storage_of(self._environment.log), attempt)
            yield from task.run(batches, self._report)
        freeze_gc("an epoch")

    def _store(self, spec: EpochSpec, attempt: str) -> AbstractContextManager[BinStore]:
        if not spec.scratch:
            return nullcontext(store_of(self._environment, spec.operator, spec.worker))
        directory = store_path(self._environment, f"{spec.operator}.{STAND_IN}", spec.worker)
        return scratch_store(directory, attempt, self._environment.bins, self._environment.store)

    def _report(self, summary: Summary) -> None:
        self._summaries.add([summary])


class BackgroundFunction:
    """One round of background work on each of some workers."""

    def __init__(
        self,
        specs: tuple[BackgroundSpec, ...],
        places: tuple[Place, ...],
        environment: Environment,
        reports: Accumulator[list[object]],
    ) -> None:
        self._specs = specs
        self._places = places
        self._environment = environment
        self._reports = reports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run this partition's round; the input is ignored."""
        for _ in batches:
            pass
        partition = pinned_partition(task_context())
        spec = self._specs[partition]
        try:
            check_place(self._places[partition])
            store = store_of(self._environment, spec.operator, spec.worker)
            report = run_niced(lambda: run_round(spec, store, storage_of(self._environment.log)))
        except Exception as error:  # any error: the job continues for the other workers
            why = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
            report = BackgroundReport(spec.operator, spec.worker, None, failed=why)
        self._reports.add([report])
        freeze_gc("a round")
        return
        yield  # an empty generator


def run_niced(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a thread with low priority, so that epochs get the processor; return or raise its outcome.

    It needs a thread of its own: on Linux, niceness belongs to a thread, and only a privileged one can lower it again.
    """

    def run() -> Result:
        thread = threading.get_native_id()
        # Niceness must not be lowered on an executor that is already nicer.
        os.setpriority(os.PRIO_PROCESS, thread, max(BACKGROUND_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
        return work()

    with ThreadPoolExecutor(1, "binshift-background") as pool:
        return pool.submit(run).result()


def check_place(place: Place) -> None:
    """Raise `WrongExecutor` unless this process belongs to the expected executor."""
    host = os.environ.get("SPARK_LOCAL_HOSTNAME") or os.uname().nodename
    if host != place.host:
        raise WrongExecutor(f"the task of worker {place.worker} was sent to {place.host} but runs on {host}")


def store_root(environment: Environment) -> Path:
    """The directory of the stores of all queries on this machine."""
    base = environment.directory or os.environ.get(STORE_DIRECTORY)
    return Path(base) if base else Path(tempfile.gettempdir()) / f"binshift-{os.getuid()}-state"


def store_path(environment: Environment, operator: str, worker: Worker) -> Path:
    """The directory of a worker's bins of an operator on this machine."""
    return store_root(environment) / environment.query / f"{operator}-{worker}"


@functools.cache
def freeze_gc(after: str) -> None:
    """Exclude everything loaded so far from garbage collection; once per process for each ``after``.

    PySpark's daemon collects garbage after every task, which with all modules loaded takes 30-40 ms of a core. Loaded modules
    stay loaded, so scanning them again is useless.
    """
    gc.collect()
    gc.freeze()


@functools.lru_cache(maxsize=16)
def storage_of(location: LogLocation) -> Storage:
    """The log's storage, opened once per process."""
    return open_storage(location.url, dict(location.options))


def store_of(environment: Environment, operator: str, worker: Worker) -> BinStore:
    """The worker's store, opened once per process."""
    path, identity = store_path(environment, operator, worker), f"{environment.query}/{operator}/{worker}"
    store = open_store(path, environment.bins, environment.store, identity)
    abandoned.mark(path.parent)
    return store


def pickled(operator: Operator) -> bytes:
    """The operator, pickled once per query (Spark would do it once per epoch)."""
    data: bytes = cloudpickle.dumps(operator)  # type: ignore[no-untyped-call]
    return data


@functools.lru_cache(maxsize=4)
def operator_from(pickled: bytes) -> Operator:
    """The operator, unpickled once per process: it holds the user's function."""
    operator: Operator = cloudpickle.loads(pickled)
    return operator


def pinned_partition(context: TaskContext) -> int:
    """The number of the partition among the partitions pinned together (see `PinnedRDD.java`).

    The number of the task is another one where the operator's rows are united with others.
    """
    return int(context.getLocalProperty("binshift.partition") or context.partitionId())


def task_context() -> TaskContext:
    """The running task.

    Raises:
        WrongExecutor: there is none.
    """
    context = TaskContext.get()
    if context is None:
        raise WrongExecutor("this function runs inside Spark tasks only")
    return context
