"""The epoch in progress, for status readers: its start, its run number, and its stage.

The epoch loop replaces the value at every step. Values are frozen, so that a reader on another thread always sees a complete
one. It distinguishes a stream that hangs from one without input, for users and the operator; no decision depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from binshift.model import Epoch


class EpochStage(StrEnum):
    """What an epoch is at."""

    PLAN = "plan"
    """Its offsets are read and its route is decided."""
    EXECUTORS = "executors"
    """It waits for the executors of its workers."""
    JOB = "job"
    """Its Spark job runs: source, state and sink."""
    RECORD = "record"
    """Its record is written."""


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """An epoch that runs.

    Attributes:
        epoch: which one.
        began: when its first run began, in seconds since 1970.
        runs: how many runs of it have begun, this one included.
        stage: what it is at.
        trouble: why its newest failed run failed; empty if none has.
    """

    epoch: Epoch
    began: float
    runs: int = 1
    stage: EpochStage = EpochStage.PLAN
    trouble: str = ""

    def at(self, stage: EpochStage, run: int, trouble: str = "") -> EpochProgress:
        """The same epoch, later on.

        Args:
            stage: what it is at.
            run: its run, counted from 0.
            trouble: see `trouble`.

        >>> EpochProgress(Epoch(7), 0.0).at(EpochStage.JOB, 2).runs
        3
        """
        return replace(self, stage=stage, runs=run + 1, trouble=trouble)
