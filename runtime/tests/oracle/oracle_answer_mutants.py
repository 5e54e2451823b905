"""Broken variants of what a task starts from, and of its answer, which is sent before the local store is written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from binshift.model import GENESIS, BinSet
from binshift.store.bins import transitions
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.status import Status
from binshift.worker.base_state import BaseState
from binshift.worker.epoch_task import EpochTask
from simulator.faulty import Files

Patch = pytest.MonkeyPatch


def stamps_not_compared(patch: Patch) -> None:
    """A task treats its store as the recorded state of the previous epoch, whatever it holds (I2)."""
    patch.setattr(BaseState, "_is_reached", lambda self, status: True)


def answered_before_the_delta(patch: Patch) -> None:
    """A summary is sent before the delta is durable (I4)."""
    committing = EpochTask.committing

    @contextlib.contextmanager
    def hasty(self: EpochTask) -> Iterator[Any]:
        storage, held = self.storage, Files()
        if self.spec.replay is None:
            self.storage = held
        with committing(self) as summary:
            yield summary
        for name, content in held.content.items():
            storage.put(name, content)

    patch.setattr(EpochTask, "committing", hasty)


def behind_counts_as_current(patch: Patch) -> None:
    """A store that was cut off before its last commit keeps its bins as if it had that epoch (I2)."""

    def newer(status: Status) -> Status:
        copies = status.held_copies.with_bins(status.owned, status.stamp.epoch + 1)
        return replace(status, stamp=GENESIS, owned=BinSet(), copies=copies, undo_to=None)

    patch.setattr(transitions, "disowned", newer)


def rounds_do_not_wait(patch: Patch) -> None:
    """A round takes the state before an epoch for the recorded one, as the epoch's commit is still under way (I1)."""
    patch.setattr(BinStore, "wait_for_writer", lambda self: None)


ANSWER_MUTANTS: tuple[Callable[[Patch], None], ...] = (
    stamps_not_compared,
    answered_before_the_delta,
    behind_counts_as_current,
    rounds_do_not_wait,
)
