"""Empties a local store whose state is not of the log that the tasks use.

A store outlives its executor, and one directory can be met by drivers of several logs with the same query: a checkpoint that was
restored from a backup, or one that was removed and adopted again. Their terms, epochs and attempts are alike, so copies of the one
could count for the other. Each change of a store is marked with its driver, and a log names the driver of each of its terms.

This never empties the store of a newer driver of the same log: the fence refuses its tasks (invariant I8).
"""

from __future__ import annotations

import logging

from binshift.errors import LogDamaged, LogFileMissing
from binshift.log.records.terms import Driver, read_term
from binshift.log.storage.contract import Storage
from binshift.model import Term
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.status import Status

log = logging.getLogger(__name__)


def claim(store: BinStore, storage: Storage, driver: Driver) -> None:
    """Let the store be one of the driver's log, or of none."""
    status = store.status()
    if status.driver in ("", driver.nonce):
        return
    if driver_of(storage, status.fence.term) == status.driver and not _is_ahead(status, driver):
        return
    log.warning(
        "a local store has state of another log than %s, or of one that was restored to epoch %d: it starts empty",
        storage.url,
        driver.opened_at,
    )
    store.forget_driver(status.driver)


def driver_of(storage: Storage, term: Term) -> str | None:
    """What is unique to the driver of a term; None if the log has no such term."""
    try:
        return read_term(storage, term).nonce
    except (LogFileMissing, LogDamaged):
        return None


def _is_ahead(status: Status, driver: Driver) -> bool:
    """Whether an earlier driver has left copies of epochs that its log did not have when this one opened it."""
    return status.fence.term < driver.term and bool((status.held_copies.epochs > driver.opened_at).any())
