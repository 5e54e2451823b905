"""The output's own event time: rows that the operators behind would drop as late are an error, as in Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import UserFunctionFailed
from binshift.operators.contract import EpochContext

MICROS_PER_MS = 1000


def none_late(batches: Iterator[pa.RecordBatch], event_time: str, context: EpochContext) -> Iterator[pa.RecordBatch]:
    """The batches, none of which has a row at or before the watermark of the epoch before.

    Args:
        batches: of a processor's output.
        event_time: a column with a time, or with a window, whose end counts.
        context: of the epoch.

    Raises:
        UserFunctionFailed: a row is late.
    """
    for batch in batches:
        times = batch.column(event_time)
        if pa.types.is_struct(times.type):
            times = pc.struct_field(times, "end")
        micros = times.cast(pa.int64())
        late = pc.less_equal(micros, context.previous_watermark_ms * MICROS_PER_MS).fill_null(False)
        if late.true_count:
            raise UserFunctionFailed(
                "[EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED] Previous node emitted a row with eventTime="
                f"{pc.min(micros.filter(late)).as_py()} which is older than current_watermark_value="
                f"{context.previous_watermark_ms * MICROS_PER_MS}. This can lead to correctness issues in the stateful "
                "operators downstream in the execution pipeline. Please correct the operator logic to emit rows after current "
                "global watermark value."
            )
        yield batch
