"""The states of a savepoint, also for clients, which need nothing else of it."""

from __future__ import annotations

from enum import StrEnum


class SavepointState(StrEnum):
    """The state of a savepoint."""

    PENDING = "Pending"
    COPYING = "Copying"
    COMPLETE = "Complete"
    FAILED = "Failed"
