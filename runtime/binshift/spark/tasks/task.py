"""The code that runs in an executor's Python worker: the adapter between Spark's tasks and `binshift.worker`.

A Python worker process serves many tasks in sequence and lives as long as its executor: modules, opened stores and unpickled
operators are kept between tasks. A warm worker therefore needs no start-up time, and a cold one needs a second.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.accumulators import Accumulator

from binshift.errors import SparkRetried, WrongExecutor
from binshift.log.records.terms import Driver
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import Worker
from binshift.operators.contract import Processor
from binshift.store import abandoned
from binshift.store.bins.binstore import BinStore
from binshift.store.opening import STAND_IN, StoreSettings, open_store, scratch_store
from binshift.worker.claim import claim
from binshift.worker.epoch_task import EpochTask
from binshift.worker.kept_times import KeptTimes
from binshift.worker.messages import EpochSpec, LogLocation, Summary

Result = TypeVar("Result")

STORE_DIRECTORY = "BINSHIFT_STORE_DIR"
"""Environment variable of an executor: the directory of its local stores. It outlives the executor, not the machine."""

OBJECTS_BEFORE_GC = 250_000
"""Python collects garbage when there are so many more objects that can be part of a cycle; its default is 700."""

LOG_DIGITS = 8
"""Of the hash of a log's URL, in the name of a store's directory."""


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
        driver: of the log.
        directory: the directory of the stores; None leaves the choice to the executor.
    """

    query: str
    bins: int
    log: LogLocation
    store: StoreSettings
    driver: Driver
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
        *,
        after_read: bool = False,
    ) -> None:
        self._specs = specs
        self._places = places
        self._environment = environment
        self._operator = operator
        self._summaries = summaries
        self._after_read = after_read

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch's part of this partition's worker."""
        if self._after_read:  # what reads the state prepares the store, and returns rows afterwards
            batches = chain(list(islice(batches, 1)), batches)
        with epoch_task(self._specs, self._places, self._environment, self._operator, STAND_IN) as task:
            yield from task.run(batches, self._report)
        freeze_gc("an epoch")

    def _report(self, summary: Summary) -> None:
        self._summaries.add([summary])


@contextmanager
def epoch_task(
    specs: tuple[EpochSpec, ...],
    places: tuple[Place, ...],
    environment: Environment,
    operator: bytes,
    stand_in: str = STAND_IN,
) -> Iterator[EpochTask]:
    """The part of an epoch that belongs to the running task, with its store open.

    Args:
        specs: of all workers, in the order of the partitions.
        places: where their tasks must run.
        environment: of the query.
        operator: pickled.
        stand_in: ends the name of the scratch store, for the bins of a worker that is away.

    Raises:
        WrongExecutor: the task runs on another executor.
        SparkRetried: Spark has run it before.
    """
    context = task_context()
    partition = pinned_partition(context)
    spec = specs[partition]
    if context.attemptNumber() > 0:
        raise SparkRetried(f"Spark re-ran worker {spec.worker}'s task of epoch {spec.epoch}")
    attempt = f"{spec.run_prefix}{context.taskAttemptId()}"
    with part_of_epoch(spec, places[partition], environment, operator, attempt, stand_in) as task:
        yield task


@contextmanager
def part_of_epoch(
    spec: EpochSpec, place: Place, environment: Environment, operator: bytes, attempt: str, stand_in: str = STAND_IN
) -> Iterator[EpochTask]:
    """One worker's part of an epoch, with its store open; arguments and errors as for `epoch_task`."""
    if not spec.scratch:  # scratch tasks may run anywhere
        check_place(place)
    with ExitStack() as opened:
        kept = KeptTimes()
        if spec.scratch:
            directory = store_path(environment, f"{spec.operator}.{stand_in}", spec.worker)
            store = opened.enter_context(scratch_store(directory, attempt, environment.bins, environment.store))
        else:
            store = store_of(environment, spec.operator, spec.worker)
            kept = kept_of(store_path(environment, spec.operator, spec.worker))
        yield EpochTask(spec, operator_from(operator), store, storage_of(environment.log), attempt, kept)


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
    """The directory of a worker's bins of an operator on this machine: copies of a checkpoint have the same query."""
    log = hashlib.sha256(environment.log.url.encode()).hexdigest()[:LOG_DIGITS]
    return store_root(environment) / environment.query / f"{log}.{operator}-{worker}"


@functools.cache
def freeze_gc(after: str) -> None:
    """Exclude everything loaded so far from garbage collection, and collect seldom; once per process for each ``after``.

    PySpark's daemon collects garbage after every task, which with all modules loaded takes 30-40 ms of a core. Loaded modules
    stay loaded, so scanning them again is useless. The rows of an epoch have no cycles, and most are gone before a late collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_GC)


@functools.lru_cache(maxsize=16)
def storage_of(location: LogLocation) -> Storage:
    """The log's storage, opened once per process."""
    return open_storage(location.url, dict(location.options))


def store_of(environment: Environment, operator: str, worker: Worker) -> BinStore:
    """The worker's store, opened once per process; without what is not of the log (see `claim`)."""
    path, identity = store_path(environment, operator, worker), f"{environment.query}/{operator}/{worker}"
    store = open_store(path, environment.bins, environment.store, identity, environment.driver.nonce)
    claim(store, storage_of(environment.log), environment.driver)
    abandoned.mark(path.parent)
    return store


@functools.lru_cache(maxsize=64)
def kept_of(path: Path) -> KeptTimes:
    """What this process knows of the expiry index of the store at ``path``."""
    return KeptTimes()


def pickled(operator: Processor) -> bytes:
    """The operator, pickled once per query (Spark would do it once per epoch)."""
    data: bytes = cloudpickle.dumps(operator)  # type: ignore[no-untyped-call]
    return data


@functools.lru_cache(maxsize=4)
def operator_from(pickled: bytes) -> Processor:
    """The operator, unpickled once per process: it holds the user's function."""
    operator: Processor = cloudpickle.loads(pickled)
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
