"""The engine's jobs as Spark jobs, one each, pinned worker by worker.

An epoch is one run of the compiled program (see `pipeline`), and its sink. Spark itself retries nothing, and errors leave this
module as what they mean (`failures`). Background rounds and rehearsals run in a session of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Executor, Placement
from binshift.engine.timings import TIMINGS_KEPT
from binshift.model import BEFORE_FIRST, Epoch, Term, Worker
from binshift.spark import conf
from binshift.spark.jobs.collecting import collecting, handed
from binshift.spark.jobs.observing import metrics_of
from binshift.spark.jobs.output import Output
from binshift.spark.jobs.pinning import PinnedRun, placed
from binshift.spark.jobs.rehearsal import Rehearsal
from binshift.spark.jobs.standing import StandingTasks
from binshift.spark.jobs.standing_members import StandingMembers
from binshift.spark.jobs.standing_rounds import StandingRounds
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.plan.pipeline import CompiledStage, Pipeline
from binshift.spark.session.executors import location
from binshift.spark.session.failures import meaning
from binshift.spark.session.jvm import Jvm
from binshift.spark.session.progress import Observed
from binshift.spark.tasks.background_function import BackgroundFunction, RoundsFunction
from binshift.spark.tasks.read_function import ReadFunction
from binshift.spark.tasks.standing_function import StandingFunction
from binshift.spark.tasks.task import Environment, EpochFunction, Place
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary

EPOCH_POOL = "binshift-epoch"
BACKGROUND_POOL = "binshift-background"

REHEARSALS = 4
"""Of an executor that joins: a JVM needs several epochs until most of an epoch's code is compiled."""


def session_beside(spark: SparkSession, jvm: Jvm) -> SparkSession:
    """A session of its own for what is no epoch, with the conf of epochs."""
    made = jvm.clone_session(spark)
    for key, value in conf.EPOCH.items():
        made.conf.set(key, value)
    return made


@dataclass
class SparkJobs:
    """The jobs of one query; see `binshift.engine.ports.Jobs`.

    Attributes:
        spark: the user's session.
        pipeline: the compiled program.
        jvm: binshift's Java classes.
        environment: what tasks need.
        sink: writes the result in one action that takes every row, and publishes it.
        watch: cancels a job whose executors are gone.
        term: the driver's.
        standing_cores: the cores that an executor must have for a standing task; None: there are no standing tasks.
        observed: what the program observes behind a stateful operator, of the newest epochs.
        standing: standing tasks for epochs; None: every epoch is a job.
        rounds: standing tasks for background rounds; None: every round is a job.
    """

    spark: SparkSession
    pipeline: Pipeline
    jvm: Jvm
    environment: Environment
    sink: Output
    watch: JobWatch
    term: Term
    standing_cores: int | None = None
    observed: deque[Observed] = field(default_factory=lambda: deque(maxlen=TIMINGS_KEPT))
    standing: StandingTasks | None = field(init=False, default=None)
    rounds: StandingRounds | None = field(init=False, default=None)
    _beside: SparkSession = field(init=False)
    _rehearsal: Rehearsal = field(init=False)
    _prepared: bool = False

    def __post_init__(self) -> None:
        self._beside = session_beside(self.spark, self.jvm)
        if self.standing_cores is not None:
            self.rounds = StandingRounds(self._members("rounds", self.standing_cores, self._rounds_function))
            if not self.pipeline.is_observed_between:  # only a Spark job has the metrics of those rows
                members = self._members("standing", self.standing_cores, self._epochs_function)
                self.standing = StandingTasks(self.pipeline, self.jvm, self.environment, members)
        self._rehearsal = Rehearsal(self._beside, self.pipeline, self.jvm, self.environment, self.watch, self.term)

    def _members(
        self, kind: str, cores: int, function: Callable[[Place], StandingFunction | RoundsFunction]
    ) -> StandingMembers:
        query, term = self.environment.query, self.term
        return StandingMembers(self._beside, self.jvm, self.watch, kind, query, term, cores, function)

    def _epochs_function(self, place: Place) -> StandingFunction:
        return StandingFunction(place, self.environment, self.pipeline.operators)

    def _rounds_function(self, place: Place) -> RoundsFunction:
        return RoundsFunction(place, self.environment)

    def use_pool(self, name: str) -> None:
        """Run this thread's jobs in the query's pool of that name."""
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"{name}-{self.environment.query}")

    def working(self) -> bool:
        """See `Jobs`."""
        return self.watch.working("epoch") or (self.standing is not None and self.standing.busy)

    def close(self) -> None:
        """End what stands; the query has ended."""
        for each in (self.standing, self.rounds):
            if each is not None:
                each.members.close()

    def publish(self, epoch: Epoch) -> None:
        """See `Jobs`."""
        self.sink.publish(epoch)

    # ---------------------------------------------------------------------------------------------------------- epochs

    @meaning()
    def epoch(
        self, batch: DataFrame, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement, ready: Callable[[], None]
    ) -> Sequence[Summary]:
        """See `Jobs`."""
        self.use_pool(EPOCH_POOL)
        if not self._prepared:
            for key, value in conf.EPOCH.items():  # all batches of a stream share one session, cloned from the user's
                batch.sparkSession.conf.set(key, value)
            self._prepared = True
        needed = {worker: each for worker, each in on.alive.items() if each in on.parts.values()}
        if self.standing is not None and self.standing.ready(plan, specs, on):
            ready()
            with self.watch.over("epoch", needed), ExitStack() as shared:
                found = self.standing.run(batch, plan, specs, on)
                if found is not None:
                    result, summaries = found
                    self._finish(plan.epoch, result, [result], stands=self.standing.repeats)
                    return summaries
        with collecting(self.spark.sparkContext) as collected, ExitStack() as shared:
            read = self.jvm.pin(batch, [location(each) for each in on.readers]) if on.readers else batch
            if self.pipeline.drained:  # a part of the epoch runs before its plan is complete
                ready()
            with self.watch.over("epoch", needed):
                run = self._run(plan, on.parts, shared)
                result = self._result(run, read, specs, collected)
                if not self.pipeline.drained:
                    ready()
                self._finish(plan.epoch, result, run.ran)
            return [each for each in collected.value if isinstance(each, Summary)]

    def _finish(self, epoch: Epoch, result: DataFrame, ran: Sequence[DataFrame], *, stands: bool = False) -> None:
        """Pass an epoch's rows to the sink, and keep what the frames that ran have observed."""
        self.sink(result, epoch, observed=self.pipeline.is_observed, stands=stands)
        if self.pipeline.is_observed:
            self.observed.append((epoch, metrics_of(ran)))

    def _run(self, plan: EpochPlan, on: Mapping[Worker, Executor], shared: ExitStack) -> PinnedRun:
        first = plan.epoch == BEFORE_FIRST + 1
        return PinnedRun(self.jvm, plan.route, plan.workers, on, shared, plan.batch.batch_time_ms, first)

    def _result(
        self, pinned: PinnedRun, batch: DataFrame, specs: Sequence[EpochSpec], collected: Accumulator[list[object]]
    ) -> DataFrame:
        def own(stage: CompiledStage) -> tuple[EpochSpec, ...]:
            return tuple(spec for spec in specs if spec.operator == stage.name)

        def run(stage: CompiledStage, places: tuple[Place, ...]) -> EpochFunction:
            after = stage.stage.read_ahead is not None
            return EpochFunction(own(stage), places, self.environment, stage.pickled, collected, after_read=after)

        def read(stage: CompiledStage, places: tuple[Place, ...]) -> ReadFunction:
            return ReadFunction(own(stage), places, self.environment, stage.pickled_reader)

        return pinned.result(self.pipeline, batch, run, read)

    # ------------------------------------------------------------------------------------------------------ background

    @meaning()
    def background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """See `Jobs`."""
        if self.rounds is not None and self.rounds.ready(on):
            self.rounds.run(specs, on, report)
            return
        base = self._beside.range(0, len(specs), 1, len(specs))
        pinned, places = placed(self.jvm, base, [spec.worker for spec in specs], on)
        with collecting(self._beside.sparkContext) as collected, ExitStack() as shared:
            function = BackgroundFunction(tuple(specs), places, self.environment, collected)
            small = handed(self._beside.sparkContext, function, shared)
            try:
                with self.watch.over("round", on):
                    pinned.mapInArrow(small, "id long").write.format("noop").mode("append").save()
            finally:
                for each in collected.value:
                    if isinstance(each, BackgroundReport):
                        report(each)

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        """See `Jobs`, and `rehearsal`; before the first epoch once, as a stream that has not begun waits for every rehearsal."""
        self._rehearsal(on, REHEARSALS if self._prepared else 1)
        for each in (self.standing, self.rounds):
            if each is not None:
                each.members.start(on)
