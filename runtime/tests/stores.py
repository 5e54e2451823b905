"""Local stores for tests: of each kind, and with an epoch that is committed at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from binshift.model import Fence
from binshift.store.bins.binstore import BinStore
from binshift.store.engine import layered_transaction, sorted_run
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

KINDS = ("memory", "lmdb", "runs")


def opened(kind: str, folder: Path, limits: StoreLimits) -> Iterator[KeyValueStore]:
    """An empty key-value store of a kind, for a fixture."""
    with packing(rows_min=1) if kind == "runs" else nullcontext():
        yield MemoryStore(limits) if kind == "memory" else open_lmdb(folder, limits)
    close_environments(folder)


@contextmanager
def packing(rows_min: int) -> Iterator[None]:
    """So many rows of a copy already become a run, of few rows, and few rows of runs are in memory together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_run, "ROWS_MIN", rows_min)
        patch.setattr(sorted_run, "ROWS_MAX", max(2 * rows_min, 7))
        patch.setattr(layered_transaction, "BYTES_AT_ONCE", 300)
        yield


def commit_epoch(store: BinStore, fence: Fence, **epoch: Any) -> None:
    """Apply an epoch, and do nothing before it is written; see `BinStore.committing`."""
    with store.committing(fence, **epoch):
        pass


def run_machine(machine: type[RuleBasedStateMachine], steps: int) -> None:
    """Run a state machine with half of the profile's examples: each of its steps compares all there is."""
    found = settings(
        max_examples=settings().max_examples // 2,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=found)
