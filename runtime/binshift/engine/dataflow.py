"""A running dataflow as the engine holds it: its log, its decisions, its two loops.

The program that runs one (Spark, the simulator) creates it over its ports; readers (the control API) read it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.coordinator import Coordinator
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.executor_wait import EpochLimits, Lost
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.migration_controller import MigrationController
from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Ports
from binshift.engine.target_controller import TargetController
from binshift.log.log import Log

COLLECT_EVERY_EPOCHS = 16


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

    @classmethod
    def over(
        cls,
        ports: Ports[Any],
        log: Log,
        operators: Sequence[str],
        policy: MigrationPolicy,
        defaults: MigrationOptions,
        limits: EpochLimits,
        *,
        manifest_every_epochs: int,
        collect_every_epochs: int = COLLECT_EVERY_EPOCHS,
        wait_seconds: float | None = None,
        lost: Lost | None = None,
        undo: bool = True,
    ) -> Dataflow:
        """One over this machinery; the arguments are those of its parts. By default a migration waits for executors as long as
        an epoch does, and the others take over the bins of lost workers."""
        house = Housekeeping(log, manifest_every_epochs, collect_every_epochs, ports.clock, policy.epochs_per_second)
        migrations = MigrationController(policy, operators, log.term, ports.clock)
        coordinator = Coordinator(log, operators, migrations, house, undo)
        targets = TargetController(log, coordinator, defaults)
        epochs = EpochLoop(coordinator, ports, lost or targets.replace_lost, limits)
        wait = limits.executor_wait_seconds if wait_seconds is None else wait_seconds
        background = BackgroundLoop(coordinator, ports, targets, house, epochs.in_epoch, wait)
        return cls(log, coordinator, targets, epochs, background)

    def resume(self) -> None:
        """Before the first epoch: take up the recorded target, and have an idle stream woken when an epoch is due."""
        self.targets.resume()
        self.epochs.ports.batches.wake_at(self.coordinator.wake_at_ms)
