"""What a driver finds where it opens a log: nothing, a whole log, or one whose format file is to be rewritten. Only reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from binshift.errors import ForeignLog, LogDamaged
from binshift.log.index import loading
from binshift.log.index.index import Index
from binshift.log.records import formats
from binshift.log.records.formats import LogFormat
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import Epoch


def find(storage: Storage, format: LogFormat) -> tuple[Literal["nothing", "damaged", "whole"], loading.Loaded]:
    """The log, and the state of its format; a damaged or lost one is taken to be the query's if the records confirm it.

    Raises:
        ForeignLog, IncompatibleState, LogDamaged: as `Log.on`.
    """
    trouble: LogDamaged | None = None
    try:
        found = formats.read_format(storage)
    except LogDamaged as error:
        found, trouble = format, error
    if found is None:
        return "nothing", loading.Loaded(Index.new(format.bins, format.operator_names, format.fingerprint))
    formats.check_compatible(storage.url, found, format)
    try:
        loaded = loading.load(storage, format)
    except LogDamaged:
        if trouble is None:
            raise
        raise trouble from None
    if trouble is None:
        return "whole", loaded
    if loaded.index.empty:
        raise trouble
    return "damaged", loading.Loaded(loaded.index, (f"{trouble}; this query rewrote it", *loaded.warnings))


def check_spark(url: str, index: Index, before: Epoch, read: Callable[[], Epoch]) -> None:
    """Spark commits an epoch after its record exists, and begins the next only after that.

    ``before`` is the last epoch that Spark had committed before the log was read; ``read`` gives the present one.

    Raises:
        LogDamaged: records are missing at the end.
        ForeignLog: the log and Spark's part do not belong together.
    """
    if before > index.last:
        raise LogDamaged(
            f"{layout.record_name(before)} is missing at {url}: Spark has committed epoch {before}, the log ends "
            f"with {index.last}. Restore it from a backup, or start with another checkpoint"
        )
    if before < index.last - 1 and not index.empty and (committed := read()) < index.last - 1:
        raise ForeignLog(
            f"the log at {url} continues to epoch {index.last}, but Spark's own checkpoint ends with {committed}: they do "
            "not belong together. Restore Spark's part, or start both with another checkpoint"
        )
