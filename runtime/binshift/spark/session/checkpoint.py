"""Spark's part of a query's checkpoint directory: what binshift reads of it, and the one file it creates there.

The directory holds Spark's own ``metadata``, ``offsets/`` and ``commits/``, and binshift's log under ``binshift/``. Spark's id
of the query identifies the owner of the log. Spark creates the id when the query first starts, after the log was opened. For a
new directory, binshift therefore creates the id and writes it in Spark's format; Spark then reads it as its own.
"""

from __future__ import annotations

import json
import uuid

from pyspark.sql import SparkSession

from binshift.errors import InvalidQuery, LogDamaged, LogFileMissing
from binshift.log.storage.contract import Storage
from binshift.log.storage.locations import same_location
from binshift.model import BEFORE_FIRST, Epoch
from binshift.savepoints.layout import COMMITS, LOG, METADATA
from binshift.settings import CHECKPOINT_CONF

CHECKPOINT_OPTION = "checkpointLocation"
CHECKPOINTS_CONF = "spark.sql.streaming.checkpointLocation"
TEMPORARY_CHECKPOINTS = ("console", "foreach", "foreachBatch", "memory", "noop")
"""Sinks for which Spark makes a temporary checkpoint."""


def query_id(checkpoint: Storage) -> str:
    """Spark's id of the query; created and written if the directory is new.

    Raises:
        LogDamaged: the metadata file cannot be read.
    """
    try:
        data = checkpoint.get(METADATA)
    except LogFileMissing:
        checkpoint.put_if_absent(METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())
        data = checkpoint.get(METADATA)
    try:
        return str(uuid.UUID(json.loads(data)["id"]))
    except (KeyError, TypeError, ValueError) as error:
        raise LogDamaged(
            f"{METADATA} at {checkpoint.url} is not a metadata file of Spark ({error}); restore it from a backup"
        ) from None


def committed(checkpoint: Storage) -> Epoch:
    """The last epoch in Spark's own commit log; -1 for none."""
    names = (each.name.removeprefix(COMMITS) for each in checkpoint.list(COMMITS))
    return Epoch(max((int(name) for name in names if name.isdigit()), default=BEFORE_FIRST))


def log_url(location: str) -> str:
    """The location of the log of the query with this checkpoint.

    >>> log_url("/data/clicks/")
    '/data/clicks/binshift'
    """
    return f"{location.rstrip('/')}/{LOG}".rstrip("/")


def chosen_location(spark: SparkSession, given: str | None, query_name: str | None, sink: str) -> str | None:
    """The location that program, conf or launcher chose; None if the query gets a temporary one, as in Spark.

    Args:
        spark: the session.
        given: the writer's option.
        query_name: of the query, if it has one.
        sink: the name of the sink.

    Raises:
        InvalidQuery: the program and its launcher disagree, or there is no location and the sink needs one.
    """
    assigned, base = spark.conf.get(CHECKPOINT_CONF, None), spark.conf.get(CHECKPOINTS_CONF, None)
    if assigned:
        if given and not same_location(given, assigned):
            raise InvalidQuery(
                f"the program chose the {CHECKPOINT_OPTION} {given!r}, but was started with {assigned!r} "
                f"({CHECKPOINT_CONF}): leave the option out, or use os.environ['BINSHIFT_CHECKPOINT']"
            )
        return assigned
    if given:
        return given
    if base and query_name:
        return f"{base.rstrip('/')}/{query_name}"
    if base:
        raise InvalidQuery(f"{CHECKPOINTS_CONF} is set, but the query has no queryName(...) that identifies its part")
    if sink in TEMPORARY_CHECKPOINTS:
        return None
    raise InvalidQuery(
        f"a query into {sink} needs a location for its log: option({CHECKPOINT_OPTION!r}, a directory or URL that "
        "driver and executors share)"
    )
