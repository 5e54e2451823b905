"""Adds what is stored to an aggregation's rows, for buffers that Spark merges before the aggregation sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from binshift.operators.aggregate import keys_of
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochContext, EpochState, prefixed
from binshift.rows import RowCodec

STORED_PREFIX = "stored_"
"""Begins the name of a column that has the stored buffer."""


@dataclass(frozen=True)
class AddStored:
    """See the module. It changes nothing.

    Attributes:
        keys: the grouping columns, as F delivers them.
        buffers: the layout of the stored value.
        names: the buffers to add.
    """

    keys: pa.Schema
    buffers: pa.Schema
    names: Sequence[str]

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Each batch with the stored buffers of its groups as further columns, null for a new group."""
        key_codec, value_codec = RowCodec(self.keys), RowCodec(self.buffers, canonical=False)
        for batch in batches:
            packed = prefixed(STATE_SPACE, key_codec.pack(keys_of(batch, self.keys)))
            stored = value_codec.unpack(state.get(batch.column(BIN_COLUMN).to_numpy(), packed))
            named = {f"{STORED_PREFIX}{name}": stored.column(name) for name in self.names}
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *named.values()], names=[*batch.schema.names, *named.keys()]
            )
