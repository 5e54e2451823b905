"""Tests dataflows without Spark and without a cluster: a reference, a simulated cluster, numbered faults.

`SimulatedCluster` runs the real protocol, log and stores in one process and compares every epoch with the `Reference`.
Describe the operator as a `StateFlow` (the function given to `applyInArrowWithState`) or as `Totals`.
"""

from __future__ import annotations

from binshift.testing.cluster import SimulatedCluster
from binshift.testing.faults import Effect, Fault, Faults, Killed, Meanwhile, Plan, Process, at
from binshift.testing.faulty import FaultyStorage, FaultyStore, Files
from binshift.testing.flows import Flow, Row, StateFlow, Totals
from binshift.testing.reference import Reference
from binshift.testing.witness import Contradiction, Witness
from binshift.testing.world import Tuning

__all__ = [
    "Contradiction",
    "Effect",
    "Fault",
    "Faults",
    "FaultyStorage",
    "FaultyStore",
    "Files",
    "Flow",
    "Killed",
    "Meanwhile",
    "Plan",
    "Process",
    "Reference",
    "Row",
    "SimulatedCluster",
    "StateFlow",
    "Totals",
    "Tuning",
    "Witness",
    "at",
]
