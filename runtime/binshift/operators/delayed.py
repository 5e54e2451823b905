"""An operator behind another one that holds rows back: its watermark is that much behind the query's.

A join by a range of times returns rows that are as old as the range allows. As in Spark (``WatermarkPropagator``), the operators
behind it wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from binshift.operators.contract import EpochContext, EpochState, Keyed, Operator, Processor


@dataclass(frozen=True)
class Delayed:
    """Runs an operator by an earlier watermark.

    Attributes:
        operator: what is run.
        delay_ms: how far its watermark is behind the query's, in milliseconds.
    """

    operator: Operator
    delay_ms: int

    @property
    def output_schema(self) -> pa.Schema:
        """The operator's."""
        return self.operator.output_schema

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The operator's."""
        return self.operator.key_columns(rows) if isinstance(self.operator, Keyed) else ()

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Run the operator."""
        yield from self.operator.run(batches, state, _earlier(context, self.delay_ms))


@dataclass(frozen=True)
class DelayedReader:
    """Runs what reads the state for such an operator by the same watermark.

    Attributes:
        reader: what is run.
        delay_ms: as in `Delayed`.
    """

    reader: Processor
    delay_ms: int

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Run the reader."""
        yield from self.reader.run(batches, state, _earlier(context, self.delay_ms))


def _earlier(context: EpochContext, delay_ms: int) -> EpochContext:
    return replace(
        context,
        watermark_ms=context.watermark_ms - delay_ms,
        previous_watermark_ms=context.previous_watermark_ms - delay_ms,
    )
