"""The definition of a user's query as frozen data, complete before anything runs.

A definition holds Spark objects of the driver, so it is never pickled or stored: what must survive a restart is the
fingerprint of each compiled operator, on the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from binshift.settings import Settings
from binshift.spark.sinks.contract import Sink


@dataclass(frozen=True)
class Definition:
    """A query, complete.

    Attributes:
        frame: the program's streaming frame: Spark's own analysis of it is what runs.
        settings: resolved and checked.
        query_name: None if it was not set.
        sink: the destination of each epoch's result.
        output_mode: "append", "update" or "complete".
        checkpoint_location: a directory or URL; always set.
        temporary: whether that location is deleted when the query ends.
        trigger: the arguments for Spark's `trigger`; empty for its default.
    """

    frame: DataFrame
    settings: Settings
    query_name: str | None
    sink: Sink
    output_mode: str
    checkpoint_location: str
    temporary: bool
    trigger: Mapping[str, str | bool]
