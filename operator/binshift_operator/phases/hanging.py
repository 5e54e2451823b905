"""An epoch that takes too long, or fails again and again: whether there is one, and what to say of it.

A stream without input has no epoch under way, however long ago its newest one was committed: it does not hang. How long one has run
is told by the driver, by its own clock, so that clocks of several nodes need not agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from binshift_operator.model.observed import ObservedRuntime, RunState

LOOK_AT: Final[Mapping[str, tuple[str, str]]] = {
    "plan": ("reads its offsets and plans its route", "the checkpoint's storage"),
    "executors": ("waits for its executors", "the executors' pods"),
    "job": ("runs its Spark job", "the sink, the program's own functions and the executors' logs"),
    "record": ("writes its record", "the checkpoint's storage"),
}
"""By what an epoch is at: what it does, and what to look at if it does so for ever."""
RUNS_FAILED_MIN: Final = 3
"""One or two runs fail whenever an executor is lost; a disk that is full, or a sink that is gone, fails more."""
FAILING_SECONDS_MIN: Final = 10.0
"""Shorter trouble is over before anybody can look."""
ELSE: Final = ("does not end", "the sink and the executors' logs")


def told(runtime: ObservedRuntime | None, epoch_seconds_max: float) -> str:
    """What a person should know of an epoch that keeps failing, or has been under way for longer than that; empty if there is none.

    The time is told in whole minutes, so that a status says something new once a minute only.
    """
    found = None if runtime is None or runtime.state is not RunState.RUNNING else runtime.running_epoch
    if found is None:
        return ""
    if found.last_error and found.runs > RUNS_FAILED_MIN and found.seconds >= FAILING_SECONDS_MIN:
        return f"epoch {found.epoch} failed {found.runs - 1} times and is tried again, the last time because {found.last_error}"
    if found.seconds <= epoch_seconds_max:
        return ""
    lasted = f"{found.seconds // 60:.0f} min" if found.seconds >= 60 else f"{epoch_seconds_max:g} s"
    again = f", in run {found.runs}," if found.runs > 1 else ""
    does, where = LOOK_AT.get(found.part, ELSE)
    return (
        f"epoch {found.epoch} has been under way for over {lasted}{again} and {does}: look at {where}, "
        "and at the driver's log"
    )
