"""Local stores for tests: of each kind, and with an epoch that is committed at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from binshift.model import Fence
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

KINDS = ("memory", "lmdb")


def opened(kind: str, folder: Path, limits: StoreLimits) -> Iterator[KeyValueStore]:
    """An empty key-value store of a kind, for a fixture."""
    yield MemoryStore(limits) if kind == "memory" else open_lmdb(folder, limits)
    close_environments(folder)


def commit_epoch(store: BinStore, fence: Fence, **epoch: Any) -> None:
    """Apply an epoch, and do nothing before it is written; see `BinStore.committing`."""
    with store.committing(fence, **epoch):
        pass
