"""What runs in an executor's Python worker for a round of background work, with low priority: in a Spark job, or by a message."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.accumulators import Accumulator

from binshift.spark.tasks.standing_channel import connected
from binshift.spark.tasks.task import (
    Environment,
    Place,
    check_place,
    freeze_gc,
    pinned_partition,
    storage_of,
    store_of,
    task_context,
)
from binshift.worker.background_task import Budget, Duty, run_round
from binshift.worker.messages import BackgroundReport, BackgroundSpec

BACKGROUND_NICENESS = 5
"""A background thread gets about a quarter of a core that an epoch's task competes for, and all of an idle one."""

REASON_CHARACTERS_MAX = 1000
"""Of the reason of a failed round, to limit the message."""


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
        processes = sum(each.worker == spec.worker for each in self._specs)  # one for each operator
        duty = Duty(spec.duty / processes)
        with _background_threads(1) as pool:
            report = pool.submit(reported, spec, self._places[partition], self._environment, duty).result()
        self._reports.add([report])
        freeze_gc("a round")
        return
        yield  # an empty generator


@dataclass(frozen=True)
class RoundsFunction:
    """Serves one round after the other in a standing task; called by `mapInArrow`, whose rows it does not use.

    An order is the specs of one worker, one for each operator, pickled; the answer is their reports.

    Attributes:
        place: the executor.
        environment: of the query.
    """

    place: Place
    environment: Environment

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve rounds until the driver ends the task."""
        check_place(self.place)
        with connected() as channel:
            for order in channel.next_orders():
                try:
                    specs = pickle.loads(order)  # noqa: S301 (the driver's, over Spark's RPC)
                    duty = Duty(max(spec.duty for spec in specs))
                    with _background_threads(len(specs)) as pool:
                        reports = list(pool.map(partial(self._reported, duty), specs))
                except Exception:  # every kind goes to the driver
                    channel.failed()
                else:
                    channel.ended(pickle.dumps(reports))
                freeze_gc("a round")
        yield from batches  # none: the JVM ends them with the loop

    def _reported(self, duty: Duty, spec: BackgroundSpec) -> BackgroundReport:
        return reported(spec, self.place, self.environment, duty)


def reported(spec: BackgroundSpec, place: Place, environment: Environment, duty: Duty) -> BackgroundReport:
    """Do one round for one operator; an error becomes a report, as the other workers and operators continue."""
    try:
        check_place(place)
        store = store_of(environment, spec.operator, spec.worker)
        return run_round(spec, store, storage_of(environment.log), Budget(spec.budget_seconds, duty))
    except Exception as error:  # any kind
        why = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
        return BackgroundReport(spec.operator, spec.worker, None, failed=why)


def _background_threads(count: int) -> ThreadPoolExecutor:
    """Threads with low priority, so that epochs get the processor.

    On Linux, niceness belongs to a thread, and only a privileged one can lower it again: the calling thread keeps its own.
    """
    return ThreadPoolExecutor(count, "binshift-background", initializer=_yield_to_epochs)


def _yield_to_epochs() -> None:
    thread = threading.get_native_id()
    # Niceness must not be lowered on an executor that is already nicer.
    os.setpriority(os.PRIO_PROCESS, thread, max(BACKGROUND_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
