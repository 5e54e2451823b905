"""The loop of `migrations --watch`: shows what is awaited and each migration, until the requested scale has settled.

It is the same for a local run and for a dataflow on Kubernetes; they differ in how they read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from binshift.control import models
from binshift.hosting.display import Show

FAILED: Final = ("failed", "cancelled")
"""Phases in which a migration has ended otherwise than requested."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen of a dataflow at one time.

    Attributes:
        migration: the newest one.
        awaited: what is waited for before bins move, for people; empty if nothing is.
        settled: the newest requested scale is in place.
    """

    migration: models.Migration | None
    awaited: str
    settled: bool


def follow(read: Callable[[], Observation], show: Show, pause: Callable[[], None]) -> None:
    """Show whatever has changed, until the requested scale has settled, or a migration that was seen moving has failed.

    Args:
        read: reads the dataflow: the requested scale before the migration, so that what settled it is not older.
        show: takes a migration, or the text of what is awaited.
        pause: waits between two reads.
    """
    before: models.Migration | None = None
    shown: models.Migration | str = ""
    while True:
        now = read()
        newest = now.migration
        moving = newest is not None and newest.ended_at is None
        failed = before is not None and newest is not None and newest.id == before.id and newest.phase in FAILED
        done = failed or (now.settled and not moving)
        # A migration that had ended before the watch began is not the requested one.
        ours = moving or done or before is not None
        if newest is not None and ours and newest != (shown if done else before):
            before = shown = newest
            show(newest)
        if not moving and not done and now.awaited and now.awaited != shown:
            shown = now.awaited
            show(shown)
        if done:
            if newest is None:
                show("nothing has moved yet")
            return
        pause()
