"""Opens a worker's local store from a few settings that a task can carry."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, discard_environments, open_lmdb

STAND_IN = "stand-in"
"""Ends the name of an operator's scratch stores: they stand in for those of a worker that is away."""


@dataclass(frozen=True)
class StoreSettings:
    """What a query decides about its local stores.

    Attributes:
        map_bytes: most bytes of one store, of address space.
        undo_bytes_max: largest undo record of one epoch.
    """

    map_bytes: int = StoreLimits().map_bytes_max
    undo_bytes_max: int = StoreLimits().undo_bytes_max


def open_store(directory: Path, bins: int, settings: StoreSettings, identity: str, driver: str = "") -> BinStore:
    """The store in ``directory``; empty if what lies there is another's, of another boot or damaged.

    Args:
        directory: on a local disk.
        bins: of the dataflow.
        settings: its limits.
        identity: whose state this is: query, operator, worker.
        driver: what is unique to the driver of the tasks.
    """
    limits = StoreLimits(map_bytes_max=settings.map_bytes, undo_bytes_max=settings.undo_bytes_max)
    return BinStore(open_lmdb(directory, limits, identity), bins, limits, driver)


@contextmanager
def scratch_store(directory: Path, name: str, bins: int, settings: StoreSettings) -> Iterator[BinStore]:
    """An empty store for one task, which is gone afterwards.

    Args:
        directory: of such stores that replace each other: the store of a killed task is deleted now; the directory is
            deleted afterwards, too, unless it has another store.
        name: of this one, unique forever.
        bins, settings: as in `open_store`.
    """
    shutil.rmtree(directory, ignore_errors=True)
    close_environments()  # address space is limited, and may have room for one map only; what is in use opens again
    try:
        yield open_store(directory / name, bins, settings, name)
    finally:
        discard_environments(directory / name)
        shutil.rmtree(directory / name, ignore_errors=True)
        with suppress(OSError):
            directory.rmdir()
