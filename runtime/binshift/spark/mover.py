"""The background of a query: copies, catches up, drops and snapshots bins, and wakes an idle stream.

One thread on the driver. Each round is one Spark job in a pool of its own, with a task pinned to every worker that has
something to do, each bounded to about half a second, so that a round never holds a task slot an epoch waits for. What
to do is decided by the coordinator's movement; the thread only carries it there and the reports back. A round that
fails (an executor died, a job was cancelled) is planned anew from what is then true.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from binshift.engine.coordinator import Coordinator
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.steering import Steering
from binshift.errors import Fenced, GiveUp, Retryable
from binshift.model import Worker
from binshift.protocol.spec import BackgroundReport, BackgroundSpec
from binshift.routing import Route
from binshift.spark import conf
from binshift.spark.collecting import collecting, handed
from binshift.spark.executors import Executor, ExecutorView
from binshift.spark.failures import interpret, raised
from binshift.spark.jvm import Jvm
from binshift.spark.stage import Stage
from binshift.spark.task import BackgroundFunction, Environment, Place, pickled
from binshift.spark.warmup import REHEARSALS, TASKS_PER_WORKER, WarmFunction, made_up, runs_python
from binshift.spark.watch import JobWatch

log = logging.getLogger(__name__)

BACKGROUND_POOL = "binshift-background"
WARM_TRIES_MAX = 3
WARM_RETRIES_MAX = 7
"""Rehearsals of a worker that may get well by itself, with growing rests between them: half a minute in all."""
IDLE_SECONDS = 0.1
"""How long the thread waits when there is nothing to do; a change wakes it at once."""


class Mover:
    """Runs rounds until stopped.

    Args:
        spark: the session; rounds run in a new session beside it.
        schema: of the stream, for rehearsals.
        nudge: makes an idle query run an epoch.
        steering: is told who is there.
        house: keeps the log short.
        in_epoch: set while an epoch runs.
        watch: cancels rounds whose executors are gone.
        wait_seconds: how long a migration waits for the executors of its workers.
    """

    error: Exception | None = None
    observed: Mapping[Worker, str] = MappingProxyType({})
    """Executors by id, once the steering has taken notice of them."""

    def __init__(
        self,
        spark: SparkSession,
        coordinator: Coordinator,
        stage: Stage,
        view: ExecutorView,
        jvm: Jvm,
        environment: Environment,
        steering: Steering,
        house: Housekeeping,
        schema: StructType,
        nudge: Callable[[], None],
        in_epoch: threading.Event,
        watch: JobWatch,
        wait_seconds: float,
    ) -> None:
        self._spark = jvm.cloned(spark)
        for key, value in conf.EPOCH.items():
            self._spark.conf.set(key, value)
        self._coordinator = coordinator
        self._stage = stage
        self._view = view
        self._jvm = jvm
        self._environment = environment
        self._steering = steering
        self._house = house
        self._schema = schema
        self._made_up = made_up(self._spark, schema)
        self._nudge = nudge
        self._in_epoch = in_epoch
        self._watch = watch
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._wait_seconds = wait_seconds
        self._rehearsals = 0
        self._missing_since: dict[Worker, float] = {}
        self._unwarmed: dict[Worker, int] = {}
        target = inheritable_thread_target(self._spark)(self._loop)
        self._thread = threading.Thread(target=target, name="binshift-mover", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End after the round that runs."""
        self._stopped.set()
        self._wake.set()
        self._thread.join()

    def _loop(self) -> None:
        self._spark.sparkContext.setLocalProperty(
            "spark.scheduler.pool", f"{BACKGROUND_POOL}-{self._environment.query}"
        )
        while not self._stopped.is_set():
            try:
                busy = self._round()
            except Exception as error:  # the edge of a thread: a failed round must not end the query
                busy = self._failed(interpret(error))
            if not busy:
                self._wake.wait(IDLE_SECONDS)
            self._wake.clear()

    def _failed(self, error: Exception) -> bool:
        if isinstance(error, GiveUp) or not isinstance(error, Exception):
            self.error = error
        if isinstance(error, Fenced):
            self._stopped.set()
        log.warning("background round failed: %s", error)
        return False

    def _round(self) -> bool:
        """One round; whether there was anything to do."""
        executors = self._view.executors()
        movement = self._coordinator.movement
        seen = {worker: executor.id for worker, executor in executors.items()}
        self._steering.observe(seen)
        self.observed = seen
        with self._coordinator.lock:
            movement.seen(frozenset(executors))
            wanted = movement.cold()
            specs = self._coordinator.background()
            awaited = wanted | movement.destinations()
        self._give_up(sorted(awaited - executors.keys()))
        cold = {w: executors[w] for w in sorted((wanted & executors.keys()) - movement.troubles.resting())}
        try:
            self._warm_up(cold)
            for workers in self._coordinator.movement.troubles.jobs({spec.worker for spec in specs}):
                if not self._stopped.is_set():
                    self._work([spec for spec in specs if spec.worker in workers], executors)
        finally:
            self._keep_house()
        return bool(cold or specs)

    def _keep_house(self) -> None:
        """What has to be done whatever became of the round."""
        self._house.run(tuple(self._coordinator.movement.snapshots.pending))
        self._coordinator.manifest = self._house.manifest
        if not self._in_epoch.is_set() and self._coordinator.needs_epoch():
            self._nudge()

    def _warm_up(self, cold: Mapping[Worker, Executor]) -> None:
        """Rehearse on cold executors: all at once, or one by one where that has failed, to find the one that cannot."""
        groups = [{w: e} for w, e in cold.items()] if self._unwarmed.keys() & cold.keys() else [cold] if cold else []
        for group in groups:
            try:
                self.warm(group)
            except Exception as error:  # whatever the user's program, image or node does to a rehearsal
                self._not_warm(group, interpret(error))
                continue
            for worker in group:
                self._unwarmed.pop(worker, None)
            with self._coordinator.lock:
                self._coordinator.movement.warmed(frozenset(group))

    def _not_warm(self, group: Mapping[Worker, Executor], error: Exception) -> None:
        """A worker on which an epoch cannot even be rehearsed gets no bins."""
        log.warning("workers %s could not rehearse an epoch: %s", sorted(group), error)
        for worker in group:
            self._unwarmed[worker] = self._unwarmed.get(worker, 0) + 1
            with self._coordinator.lock:
                if len(group) == 1:
                    self._coordinator.movement.troubles.failed(worker, str(error))
                if self._unwarmed[worker] >= (WARM_RETRIES_MAX if isinstance(error, Retryable) else WARM_TRIES_MAX):
                    del self._unwarmed[worker]
                    self._coordinator.movement.give_up(f"worker {worker} cannot run an epoch: {error}")

    def _give_up(self, missing: Sequence[Worker]) -> None:
        """A migration does not wait for ever for workers that nobody starts."""
        now = time.monotonic()
        self._missing_since = {w: self._missing_since.get(w, now) for w in missing}
        for worker, since in self._missing_since.items():
            if now - since > self._wait_seconds:
                with self._coordinator.lock:
                    why = f"has no executor after {self._wait_seconds:.0f} s: start one and ask again"
                    self._coordinator.movement.give_up(f"worker {worker} {why}")

    def _work(self, specs: Sequence[BackgroundSpec], executors: Mapping[Worker, Executor]) -> None:
        """One job; what its tasks reported counts though it failed, and those that did not are remembered.

        Raises:
            Fenced: another driver has taken over.
        """
        reports: list[BackgroundReport] = []
        why = "no report came"
        try:
            self._execute(specs, executors, reports)
        except Exception as error:  # whatever is wrong with one executor, the others go on
            why = str(interpret(error))
        silent = {spec.worker for spec in specs} - {report.worker for report in reports}
        if len(silent) > 1:
            log.warning("a background job ended before workers %s had reported: %s", sorted(silent), why)
        self._coordinator.reported(reports, sorted(silent), why)

    def _execute(
        self, specs: Sequence[BackgroundSpec], executors: Mapping[Worker, Executor], reports: list[BackgroundReport]
    ) -> None:
        """Run the job; ``reports`` gets what its tasks have sent, also where this raises."""
        workers = [spec.worker for spec in specs]
        places = tuple(Place(w, executors[w].host) for w in workers)
        base = self._spark.range(0, len(workers), 1, len(workers))
        pinned = self._jvm.pinned(base, [executors[w].location for w in workers])
        with collecting(self._spark.sparkContext) as collected:
            function = BackgroundFunction(tuple(specs), places, self._environment, collected)
            small = handed(self._spark.sparkContext, function, collected)
            try:
                with self._watch.over("round", {w: executors[w] for w in workers}):
                    pinned.mapInArrow(small, "id long").write.format("noop").mode("append").save()
            finally:
                reports += [each for each in collected.value if isinstance(each, BackgroundReport)]

    def warm(self, executors: Mapping[Worker, Executor]) -> None:
        """Rehearse epochs on these executors, with made-up rows that end where S would begin (see `warmup`).

        Raises:
            Retryable: an executor went away.
            UserFunctionFailed: the program cannot even be loaded there.
        """
        for _ in range(REHEARSALS):
            try:
                self._told(executors)
            except Retryable:
                raise
            except Exception as error:  # the user's expressions may not take made-up values: then without rows
                if not self._made_up.head(1):
                    raise
                log.info("rehearsing without rows: %s", error)
                self._made_up = self._spark.createDataFrame([], self._schema)
                self._told(executors)

    def _told(self, executors: Mapping[Worker, Executor]) -> None:
        """Rehearse once; an error is short and typed, as one of an epoch is."""
        try:
            self._rehearse(executors, self._made_up)
        except Exception as error:  # every kind: what it means is said, instead of a wall of Java
            raised(interpret(error), error)

    def _rehearse(self, executors: Mapping[Worker, Executor], rows: DataFrame) -> None:
        workers = tuple(sorted(executors)) * TASKS_PER_WORKER
        self._rehearsals += 1
        places = tuple(Place(w, executors[w].host) for w in workers)
        function = WarmFunction(
            places,
            self._environment,
            self._coordinator.movement.operators[0],
            pickled(self._stage.operator),
            f"{self._coordinator.term}.{self._rehearsals}",
        )
        bins = self._environment.bins
        # One task of each worker gets rows: bins belong to workers, not to tasks.
        route = Route.initial(bins, sorted(executors))
        routed = self._stage.route(rows, route, workers)
        if runs_python(routed):
            routed = self._stage.route(self._spark.createDataFrame([], self._schema), route, workers)
        pinned = self._jvm.pinned(routed, [executors[w].location for w in workers])
        with collecting(self._spark.sparkContext) as nothing, self._watch.over("rehearsal", executors):
            small = handed(self._spark.sparkContext, function, nothing)
            merged = pinned.mapInArrow(small, self._stage.merged_schema)
            self._stage.finish(merged).write.format("noop").mode("append").save()
