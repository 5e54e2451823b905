"""Assembles a query, in the order in which its parts can reject it, and starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from binshift.engine.dataflow import Dataflow
from binshift.engine.executor_wait import EpochLimits
from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Executor, Ports
from binshift.engine.rhythm import EPOCHS_PER_SECOND
from binshift.log.log import Log
from binshift.log.records.owners import OWNER_VARIABLE, Heartbeat
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.migration import Limits
from binshift.model import Worker
from binshift.savepoints.planning import Source
from binshift.savepoints.restoring import check_begin, checkpoint_id, restore
from binshift.savepoints.shelf import Shelf
from binshift.settings import resolve
from binshift.spark import conf
from binshift.spark.adoption import adopting
from binshift.spark.adoption.adopting import Adoption
from binshift.spark.frontend import neighbours, standby
from binshift.spark.frontend.dataflow import StreamingQuery
from binshift.spark.frontend.definition import Definition
from binshift.spark.frontend.host import Host
from binshift.spark.frontend.opening import open_log
from binshift.spark.frontend.starting import await_executors, warm
from binshift.spark.frontend.threads import BackgroundThread, BatchCallback
from binshift.spark.jobs.batches import SparkBatches, with_nudge_source
from binshift.spark.jobs.input_meter import InputMeter
from binshift.spark.jobs.jobs import SparkJobs
from binshift.spark.jobs.output import Output
from binshift.spark.jobs.watch import JobWatch
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.template import Templates
from binshift.spark.session import checkpoint, checkpoint_files, jvm, progress
from binshift.spark.session.executors import ExecutorView
from binshift.spark.session.progress import Reports
from binshift.spark.stages.compiling import compile_program
from binshift.spark.tasks.task import Environment
from binshift.store.opening import StoreSettings
from binshift.worker.messages import LogLocation


def start(definition: Definition, host: Host) -> StreamingQuery:
    """Start a query, and notify the host of the program.

    Raises:
        InvalidSettings: the Spark conf or a setting is wrong, there is no complete snapshot to restore, too few executors
            registered, or they have too few task slots.
        InvalidQuery: the query is already running in this application.
        Unsupported: the program uses something that binshift does not support.
        LogOwned: another dataflow runs on the checkpoint.
        IncompatibleState, ForeignLog, LogDamaged: the checkpoint does not fit the program; it was not changed.
    """
    spark, settings = definition.frame.sparkSession, definition.settings
    conf.check(spark)
    java = jvm.install(spark)
    pipeline = compile_program(definition.frame, Templates(spark, java), definition.output_mode, settings.bins)
    location, application = definition.checkpoint_location, spark.sparkContext.applicationId or ""
    if not host.admitted(application, 0):
        standby.rehearse_until_admitted(host, spark, pipeline, java, checkpoint.log_url(location), settings)
    files = open_storage(location)
    if settings.restore_from is not None:
        restore(files, location, settings.restore_from, definition.query_name)
    check_begin(files)
    adoption = adopting.begin(definition.frame, pipeline, files, checkpoint.log_url(location), settings.adopt)
    others = neighbours.of(spark.sparkContext)
    neighbour = others.enter(checkpoint.query_id(files), definition.query_name, location)
    try:
        log = open_log(files, location, pipeline, settings, new=adoption is not None)
        heartbeat = Heartbeat(log.storage, os.environ.get(OWNER_VARIABLE, ""), log.term).start()
        try:
            query = _parts(definition, pipeline, java, log, files, heartbeat, host, adoption).start()
        except BaseException:
            heartbeat.stop()
            raise
    except BaseException:
        others.leave(neighbour)
        raise
    neighbour.running = query
    host.started(query)
    return query


def _parts(
    definition: Definition,
    pipeline: Pipeline,
    java: jvm.Jvm,
    log: Log,
    files: Storage,
    heartbeat: Heartbeat,
    host: Host,
    adoption: Adoption | None,
) -> _Parts:
    """Wait for executors and assemble the parts that run on them."""
    spark, settings = definition.frame.sparkSession, definition.settings
    view = ExecutorView(spark.sparkContext, java)
    host.recorded(frozenset(log.index.route.workers if log.index.route else ()))
    executors = await_executors(view, log, settings)
    neighbours.of(spark.sparkContext).check_slots(executors)
    watch = JobWatch(spark.sparkContext, view, f"{log.format.query}-{log.term}")
    return _Parts(spark, definition, pipeline, java, log, view, executors, files, heartbeat, watch, adoption)


@dataclass
class _Parts:
    """The parts of a query before it runs."""

    spark: SparkSession
    definition: Definition
    pipeline: Pipeline
    java: jvm.Jvm
    log: Log
    view: ExecutorView
    executors: Mapping[Worker, Executor]
    files: Storage
    heartbeat: Heartbeat
    watch: JobWatch
    adoption: Adoption | None

    def start(self) -> StreamingQuery:
        """Warm the executors and write adopted state at the same time, then start Spark's stream."""
        self.watch.start()
        jobs = self._jobs()
        try:
            return self._start(jobs)
        except BaseException:
            jobs.close()
            self.watch.close()
            raise

    def _start(self, jobs: SparkJobs) -> StreamingQuery:
        name = f"{self.log.format.query}-{self.log.term}"
        with ThreadPoolExecutor(1, "binshift-warm") as pool:
            warmed = pool.submit(inheritable_thread_target(self.spark)(warm), jobs, self.executors)
            if self.adoption is not None:
                workers = sorted(self.executors)[: self.definition.settings.workers]
                self.adoption.write(self.log, self.files, workers)
            dataflow = self._dataflow(jobs, name)
            warmed.result()
        dataflow.coordinator.migrations.mark_warm(frozenset(self.executors))
        dataflow.resume()
        reports = Reports(dataflow.epochs.timings, jobs.observed)
        progress.publish(self.log.format.query, reports)
        # Spark runs a single batch for `once`: it must have everything.
        once = "once" in self.definition.trigger
        max_epoch = None if once else self.definition.settings.max_epoch
        requested = resolve(conf.given(self.spark)).max_epoch
        query_id = self.log.format.query
        meter = InputMeter.of(self.java, self.pipeline.source, query_id, len(self.executors), max_epoch, requested)
        query = self._stream(dataflow, name, meter)
        thread = BackgroundThread(dataflow.background, jobs)
        thread.start()
        shelf = self._shelf()
        close = partial(self._close, jobs, name, meter, shelf)
        return StreamingQuery(query, self.spark, dataflow, reports, meter, shelf, thread.stop, close)

    def _shelf(self) -> Shelf:
        chosen = self.definition
        name, duty = chosen.query_name or "", chosen.settings.copy_duty
        identity = checkpoint_id(self.files, self.log.format.query)
        return Shelf(Source(chosen.checkpoint_location, self.files, self.log, identity, name, duty))

    def _close(self, jobs: SparkJobs, name: str, meter: InputMeter, shelf: Shelf) -> None:
        shelf.close()
        jobs.close()
        meter.close()
        self.watch.close()
        self.java.forget(name)
        self.heartbeat.stop()
        self.definition.sink.close()
        if self.definition.temporary:
            shutil.rmtree(self.definition.checkpoint_location, ignore_errors=True)

    def _jobs(self) -> SparkJobs:
        settings, query = self.definition.settings, self.log.format.query
        store = StoreSettings(settings.store_map_bytes, settings.undo_bytes_max)
        location = LogLocation(self.log.storage.url)
        return SparkJobs(
            self.spark,
            self.pipeline,
            self.java,
            Environment(query, settings.bins, location, store, self.log.driver, settings.store_directory),
            Output(self.spark, self.definition.sink, self.log),
            self.watch,
            self.log.term,
            neighbours.of(self.spark.sparkContext).standing_cores() if settings.standing_tasks else None,
        )

    def _dataflow(self, jobs: SparkJobs, name: str) -> Dataflow:
        """The engine's parts, built on Spark's."""
        settings = self.definition.settings
        batches = SparkBatches.of(self.pipeline, self.spark, self.files, self.java, name, self.log.format.query)
        policy = MigrationPolicy(
            settings.bins,
            settings.workers,
            Limits(steps_inflight_max=settings.steps_inflight_max, flips_per_epoch_max=settings.flips_per_epoch_max),
            settings.copy_duty,
            settings.snapshot_cycle_epochs,
            settings.latency_target_seconds,
            EPOCHS_PER_SECOND,
            settings.standby_replicas,
        )
        waits = (settings.executor_wait_seconds, settings.lost_worker_timeout_seconds)
        return Dataflow.over(
            Ports(self.view, jobs, batches),
            self.log,
            [stage.name for stage in self.pipeline.stages],
            policy,
            MigrationOptions().override(settings.strategy, settings.batch_size, settings.pre_copy),
            EpochLimits(settings.epoch_attempts_max, *waits),
            manifest_every_epochs=settings.manifest_every_epochs,
        )

    def _stream(self, dataflow: Dataflow, name: str, meter: InputMeter) -> Any:
        callback = BatchCallback(dataflow.epochs, self.java, lambda: meter.epoch(dataflow.epochs.timings[-1]))
        source = with_nudge_source(self.pipeline.source, self.spark, name)
        location = self.definition.checkpoint_location
        writer = self.java.foreach_batch(source.writeStream, self.spark, name, callback.epoch)
        writer = writer.option("checkpointLocation", location)
        if self.definition.query_name is not None:
            writer = writer.queryName(self.definition.query_name)
        if self.definition.trigger:
            writer = writer.trigger(**self.definition.trigger)  # type: ignore[arg-type]
        return checkpoint_files.start(self.java, self.spark, writer, location, name)
