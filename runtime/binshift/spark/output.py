"""How an epoch's result reaches its sink."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from binshift.model import Epoch
from binshift.spark.definition import Definition, replay
from binshift.spark.sinks import FileSink, Sink


def consumer(definition: Definition, sink: Sink, confirm: Callable[[], None]) -> Callable[[DataFrame, Epoch], None]:
    """Takes an epoch's result through the user's further calls into the sink, every row exactly once.

    ``confirm`` raises if another driver has taken over.
    """

    def consume(result: DataFrame, epoch: Epoch) -> None:
        frame = replay(result, definition.after)
        sink.write(frame.localCheckpoint(eager=True) if sink.drains else frame, epoch)
        if isinstance(sink, FileSink):
            sink.publish(result.sparkSession, epoch, confirm)

    return consume
