"""The part of the status about the drivers of a dataflow with a standby."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The drivers of a dataflow with a standby: the pod of the active one and its UID, as last observed, and that of a standby that waits.

    Attributes:
        warm_executors: how many of the standby's executors have rehearsed the program.
    """

    active: str = ""
    active_uid: str = ""
    standby: str = ""
    warm_executors: int = 0
