"""Opens the log of a query that starts, after Spark's part of its checkpoint has been compared with it."""

from __future__ import annotations

import os
import socket

from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.records.owners import OWNER_VARIABLE, await_release
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import BEFORE_FIRST
from binshift.settings import Settings
from binshift.spark.frontend.evolving import Evolution
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.session import checkpoint, offsets
from binshift.state.descriptions import to_formats


def open_log(files: Storage, location: str, pipeline: Pipeline, settings: Settings, *, new: bool) -> Log:
    """The log; ``new``: Spark's part of the checkpoint is about to be written, and is not compared with it."""
    query = checkpoint.query_id(files)
    operators = tuple(
        OperatorFormat(s.name, s.stage.fingerprint, s.stage.description, to_formats(s.stored)) for s in pipeline.stages
    )
    format = LogFormat(bins=settings.bins, query=query, operators=operators)
    owner = os.environ.get(OWNER_VARIABLE, "")
    holder = f"{socket.gethostname()}, process {os.getpid()}" + (f", dataflow {owner}" if owner else "")
    url = checkpoint.log_url(location)
    await_release(open_storage(url), owner)
    evolution = Evolution.of(open_storage(url), pipeline)
    log = Log.open(
        url,
        {},
        format,
        who=holder,
        spark_committed=None if new else lambda: checkpoint.committed(files),
        grace_seconds=settings.log_grace_seconds,
    )
    last = log.index.last
    if last == checkpoint.committed(files) != BEFORE_FIRST:
        offsets.check(files, last, log.index.record(last).offsets_hash)
    if last != BEFORE_FIRST:
        offsets.check_watermark(files, log.index.record(last))
    evolution.record(log)
    return log
