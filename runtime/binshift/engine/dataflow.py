"""A running dataflow as the engine holds it: its log, its decisions, its two loops.

The program that runs one (Spark, the simulator) creates it; readers (the control API) read it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.coordinator import Coordinator
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.target_controller import TargetController
from binshift.log.log import Log


@dataclass(frozen=True)
class Dataflow:
    """The parts of one query, in one driver term.

    Attributes:
        log: its durable truth.
        coordinator: of its epochs.
        targets: takes requests.
        epochs: runs them.
        background: runs its rounds.
    """

    log: Log
    coordinator: Coordinator
    targets: TargetController
    epochs: EpochLoop[Any]
    background: BackgroundLoop

    def resume(self) -> None:
        """Before the first epoch: take up the recorded target, and have an idle stream woken when an epoch is due."""
        self.targets.resume()
        self.epochs.ports.batches.wake_at(self.coordinator.wake_at_ms)
