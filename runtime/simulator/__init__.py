"""Tests dataflows without Spark and without a cluster: a reference, a simulated cluster, numbered faults.

`SimulatedCluster` runs the real protocol, log and stores in one process and compares every epoch with the `Reference`.
Describe the operator as a `StateFlow` (the function given to `binshift.vectorised`) or as `Totals`.
"""

from __future__ import annotations

from simulator.cluster import SimulatedCluster
from simulator.comparing import Contradiction
from simulator.faults import Effect, Fault, Faults, Killed, Meanwhile, Plan, Process, at
from simulator.faulty import FaultyStorage, FaultyStore, Files
from simulator.flows import Flow, Row, Totals
from simulator.reference import Reference
from simulator.stateflow import StateFlow
from simulator.witness import Witness
from simulator.world import Tuning

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
