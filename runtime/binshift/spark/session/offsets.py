"""Spark's own offset log entry of a batch: its time, its watermark and its input.

Spark writes ``offsets/<batch>`` before a batch runs and never changes it, so its timestamp is the same in every replay:
it is the epoch's processing time. The same holds for its watermark, which Spark derives from earlier batches. The hash of the
sources' offsets is part of the commit record; a batch that is run again with other input is rejected.
"""

from __future__ import annotations

import hashlib
import json

from binshift.engine.epoch_plan import BatchOffsets
from binshift.errors import IncompatibleState, LogDamaged
from binshift.log.records.commits import CommitRecord
from binshift.log.storage.contract import Storage
from binshift.model import Epoch

HEADER_LINES = 2
"""A version line and a line of JSON, followed by one line per source."""


def parse(text: str, name: str = "offsets") -> BatchOffsets:
    r"""Read the text of an offset log entry.

    Raises:
        LogDamaged: the text is not an offset log entry.

    >>> parse('v1\n{"batchWatermarkMs":0,"batchTimestampMs":17}\n{"a":1}').batch_time_ms
    17
    """
    lines = text.splitlines()
    try:
        metadata = json.loads(lines[1])
        time_ms, watermark_ms = int(metadata["batchTimestampMs"]), int(metadata["batchWatermarkMs"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise LogDamaged(f"{name} is not an offset log entry of Spark ({error!r}); restore it from a backup") from None
    digest = hashlib.sha256("\n".join(lines[HEADER_LINES:]).encode()).hexdigest()[:32]
    return BatchOffsets(time_ms, watermark_ms, digest)


def read(checkpoint: Storage, epoch: Epoch) -> BatchOffsets:
    """Read a batch's entry from a query's checkpoint."""
    name = f"offsets/{epoch}"
    return parse(checkpoint.get(name).decode(), name)


def has_new_input(checkpoint: Storage, epoch: Epoch) -> bool:
    """Whether the batch has other offsets than the one before, apart from the nudge source, which is the last."""
    if epoch == 0:
        return True
    entries = (checkpoint.get(f"offsets/{each}").decode().splitlines() for each in (epoch, epoch - 1))
    new, old = (lines[HEADER_LINES:-1] for lines in entries)
    return new != old


def check(checkpoint: Storage, epoch: Epoch, recorded: str) -> None:
    """Reject a checkpoint in which the entry of a committed batch was altered: the next batch would begin elsewhere.

    ``recorded`` is the hash in the epoch's commit record. A batch that is not committed runs again, and its input is compared
    then.

    Raises:
        LogDamaged: the entry was altered; rows would be lost or counted twice.
    """
    found = read(checkpoint, epoch)
    if found.digest != recorded:
        raise LogDamaged(
            f"offsets/{epoch} at {checkpoint.url} was altered: epoch {epoch} was recorded with other input (hash {recorded}, "
            f"not {found.digest}), and the next batch begins where it ended. Restore it from a backup, or start the query with "
            "another checkpoint location"
        )


def check_watermark(checkpoint: Storage, record: CommitRecord) -> None:
    """Reject a checkpoint whose watermark Spark does not have: its closed groups would be opened again.

    Raises:
        IncompatibleState: an earlier binshift, which tracked the event time itself, wrote the record.
    """
    if any(record.watermarks.values()):
        raise IncompatibleState(
            f"the checkpoint at {checkpoint.url} was written by an earlier binshift, which kept the watermark in its own "
            f"log; this one uses Spark's, which is not in that checkpoint. Use the binshift version that wrote it, or start the "
            "query with another checkpoint location"
        )
