"""What Spark stores of a stream, and a sink: the offset log, the commit log, the output by epoch.

Spark writes a batch's offsets and its watermark before calling `foreachBatch`, and its commit afterwards. A restarted driver runs a
batch without a commit again, with the same input and the same batch time. The sink is idempotent by epoch: a repeated delivery
replaces the earlier one. All deliveries are kept, since they must be equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from binshift.model import BEFORE_FIRST, Epoch
from simulator.flows import Row
from simulator.graph import LEAF, Mark

Outputs = Mapping[str, Sequence[Row]]
"""An epoch's output, by flow."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch, as Spark's offset log fixes it.

    Attributes:
        epoch: its id.
        rows: its input.
        time_ms: its batch timestamp.
        watermark_ms: the stream's watermark, computed from earlier batches.
    """

    epoch: Epoch
    rows: tuple[Row, ...]
    time_ms: int
    watermark_ms: int

    @property
    def digest(self) -> str:
        """The hash of its offsets."""
        return hashlib.blake2b(repr((self.epoch, self.rows)).encode(), digest_size=8).hexdigest()


@dataclass
class Stream:
    """Spark's checkpoint and the sink.

    Attributes:
        marks: the watermarks of its leaves.
        batches: the offset log.
        committed: the newest epoch in the commit log.
        outputs: the contents of the sink, by epoch.
        deliveries: how often each epoch was delivered.
        final_epoch_required: whether the input so far requires one more epoch.
        watch: is called with every delivery before the sink takes it.
    """

    marks: Sequence[Mark] = ()
    batches: list[Batch] = field(default_factory=list)
    committed: Epoch = BEFORE_FIRST
    outputs: dict[Epoch, Outputs] = field(default_factory=dict)
    deliveries: dict[Epoch, int] = field(default_factory=dict)
    final_epoch_required: bool = False
    watch: Callable[[Epoch, Outputs], None] = lambda epoch, outputs: None

    @property
    def pending(self) -> Batch | None:
        """The batch whose offsets are written but whose commit is not."""
        return self.batches[-1] if self.committed < len(self.batches) - 1 else None

    def offer(self, rows: Sequence[Row], time_ms: int) -> Batch:
        """Write the offsets of the next batch."""
        batch = Batch(Epoch(len(self.batches)), tuple(rows), time_ms, self.watermark_ms)
        self.final_epoch_required = False
        self.batches.append(batch)
        return batch

    @property
    def watermark_ms(self) -> int:
        """The watermark as Spark computes it: 0 before the first event, then the lowest of all marks."""
        return max(0, min(map(self._latest, self.marks), default=0))

    def _latest(self, mark: Mark) -> int:
        seen = (row for batch in self.batches for row in batch.rows if mark.leaf is None or row[LEAF] == mark.leaf)
        return max((int(row[mark.column]) - mark.delay_ms for row in seen), default=0)

    def deliver(self, epoch: Epoch, outputs: Outputs) -> None:
        """The sink takes a whole epoch's output."""
        self.watch(epoch, outputs)
        self.outputs[epoch] = outputs
        self.deliveries[epoch] = self.deliveries.get(epoch, 0) + 1

    def commit(self, epoch: Epoch) -> None:
        """Write Spark's commit of ``epoch``; a repetition succeeds."""
        self.committed = max(self.committed, epoch)
